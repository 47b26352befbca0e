// From the text of a strategy to a plan.
#include "reprise/apps/recompute/strategies.h"

#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/train/option_error.h"

namespace reprise::apps::recompute {
namespace {

// "full+selective" in two; without a + the predictor's is empty.
std::pair<std::string, std::string> parts_of(const std::string& strategy) {
  const size_t plus = strategy.find('+');
  if (plus == std::string::npos) return {strategy, ""};
  return {strategy.substr(0, plus), strategy.substr(plus + 1)};
}

RecomputeStrategy::Kind kind_of(const std::string& strategy) {
  return parse_strategy(parts_of(strategy).first).kind;
}

bool is_automatic(const std::string& strategy) {
  return kind_of(strategy) == RecomputeStrategy::Kind::automatic;
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
  if (is_automatic(blocks)) blocks = "none";
  Prepared prepared{.blocks = part_for(blocks, workload.blocks)};
  const bool is_plan = kind_of(blocks) == RecomputeStrategy::Kind::plan;  // of the encoder's blocks alone
  if (predictor.empty()) predictor = is_plan ? "none" : blocks;
  if (workload.predictor_blocks > 0) prepared.predictor = part_for(predictor, workload.predictor_blocks);
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
  train::under_option("--recompute", [&] { before_planning(strategy, workload); });
}

Prepared prepared_for(const std::string& strategy, const Workload& workload) {
  return train::under_option("--recompute", [&] {
    check(!is_automatic(strategy), "--recompute ", strategy, ": a plan needs a batch to be made for");
    return before_planning(strategy, workload);
  });
}

Prepared prepare(Trainee& trainee, const std::string& strategy, const Batch& batch) {
  Prepared prepared = before_planning(strategy, trainee.workload);
  if (!is_automatic(strategy)) return prepared;
  trainee.set_recompute(prepared);
  reprise::recompute::Chain chain = trainee.model.profile(batch.input);
  const int64_t budget = budget_of(parse_strategy(parts_of(strategy).first), chain);
  prepared.blocks.plan = plan_rotor(chain, budget).plan;
  return prepared;
}

}  // namespace reprise::apps::recompute
