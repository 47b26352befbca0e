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

// "full+selective" in two; without a + the predictor's is empty.
std::pair<std::string, std::string> parts_of(const std::string& strategy) {
  const size_t plus = strategy.find('+');
  if (plus == std::string::npos) return {strategy, ""};
  return {strategy.substr(0, plus), strategy.substr(plus + 1)};
}

Prepared::Part part_for(const std::string& strategy, int64_t blocks) {
  const RecomputeStrategy parsed = parse_strategy(strategy);
  return {reprise::recompute::plan_of(parsed, blocks), reprise::recompute::options_of(parsed)};
}

// With a plan that plays all blocks plainly where the strategy is the planner's.
Prepared before_planning(const std::string& strategy, const Workload& workload) {
  auto [blocks, predictor] = parts_of(strategy);
  check(predictor.empty() || workload.predictor_blocks > 0, "--recompute ", strategy,
        ": this model has no predictor");
  if (blocks.starts_with(automatic)) blocks = "none";
  Prepared prepared{.blocks = part_for(blocks, workload.blocks)};
  if (workload.predictor_blocks > 0)
    prepared.predictor = part_for(predictor.empty() ? blocks : predictor, workload.predictor_blocks);
  return prepared;
}

}  // namespace

std::string with_predictor(const std::string& strategy, const WorkloadOptions& o) {
  if (o.recompute_predictor.empty()) return strategy;
  check(strategy.find('+') == std::string::npos, "--recompute ", strategy,
        " and --recompute-predictor both name the predictor's strategy");
  return strategy + '+' + o.recompute_predictor;
}

void check_strategy(const std::string& strategy, const Workload& workload) {
  before_planning(strategy, workload);
  if (!strategy.starts_with(automatic)) return;
  const std::string budget = parts_of(strategy).first.substr(automatic.size());
  if (percent_in(budget) < 0) parse_bytes(budget);
}

Prepared prepared_for(const std::string& strategy, const Workload& workload) {
  check(!strategy.starts_with(automatic), "--recompute ", strategy, ": a plan needs a batch to be made for");
  return before_planning(strategy, workload);
}

Prepared prepare(Trainee& trainee, const std::string& strategy, const Batch& batch) {
  Prepared prepared = before_planning(strategy, trainee.workload);
  if (!strategy.starts_with(automatic)) return prepared;
  trainee.set_recompute(prepared);
  reprise::recompute::Chain chain = trainee.model.profile(batch.input);
  const std::string budget = parts_of(strategy).first.substr(automatic.size());
  prepared.blocks.plan = plan_rotor(chain, budget_of(budget, chain)).plan;
  return prepared;
}

}  // namespace reprise::apps::recompute
