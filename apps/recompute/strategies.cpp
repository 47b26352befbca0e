// From the text of a strategy to a plan.
#include "reprise/apps/recompute/strategies.h"

#include "reprise/apps/common/sizes.h"
#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/core/number_in.h"

namespace reprise::apps::recompute {
namespace {

constexpr std::string_view automatic = "auto:";

// A percentage, or -1 if the text is none.
double percent_in(std::string_view text) {
  if (!text.ends_with('%')) return -1;
  std::optional<double> value = number_in<double>(text.substr(0, text.size() - 1));
  check(!value || (*value >= 0 && *value <= 100), "recompute: '", text, "' is not in [0 %, 100 %]");
  return value.value_or(-1);
}

int64_t budget_of(std::string_view text, const reprise::recompute::Chain& chain) {
  double percent = percent_in(text);
  if (percent < 0) return int64_t(parse_bytes(text));
  int64_t least = reprise::recompute::minimum_bytes(chain);
  int64_t most = simulate(reprise::recompute::plan_none(chain.size()), chain).peak_bytes;
  return least + int64_t(percent / 100 * double(std::max<int64_t>(0, most - least)));
}

}  // namespace

void check_strategy(const std::string& strategy, const Workload& workload) {
  if (!strategy.starts_with(automatic)) {
    reprise::recompute::plan_of(parse_strategy(strategy), workload.blocks);
    return;
  }
  check(workload.is_chain, "--recompute ", strategy,
        ": the planner plans chains, and this model's stages are none");
  std::string_view budget = std::string_view(strategy).substr(automatic.size());
  if (percent_in(budget) < 0) parse_bytes(budget);
}

Prepared prepare(Trainee& trainee, const std::string& strategy, const Batch& batch) {
  if (!strategy.starts_with(automatic)) {
    RecomputeStrategy parsed = parse_strategy(strategy);
    return {reprise::recompute::plan_of(parsed, trainee.model.blocks.size()),
            reprise::recompute::options_of(parsed)};
  }
  reprise::recompute::Chain chain = trainee.model.profile(batch.input);
  return {plan_rotor(chain, budget_of(std::string_view(strategy).substr(automatic.size()), chain)).plan, {}};
}

}  // namespace reprise::apps::recompute
