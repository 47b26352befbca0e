#include "reprise/nn/memory/fastest_batch.h"

#include <algorithm>

#include "reprise/core/no_compute.h"
#include "reprise/nn/memory/played_step.h"
#include "reprise/nn/memory/turns.h"

namespace reprise::nn {
namespace {

struct Candidate {
  RecomputeStrategy strategy;
  TimedBatch batch;
};

// Multiples of `smallest` above `least`: `most` rows, half of them, a quarter.
std::vector<int64_t> batches(int64_t most, int64_t least, int64_t smallest) {
  std::vector<int64_t> rows;
  for (int64_t part = 1; part <= 4; part *= 2) {
    const int64_t some = most / part / smallest * smallest;
    if (some > least) rows.push_back(some);
  }
  return rows;
}

}  // namespace

std::vector<TimedBatch> fastest_batches(const TrainingStepCase& step, const MemoryReportOptions& options) {
  constexpr auto op = "fastest_batches";
  check(!NoCompute::is_on(), op, ": within a NoCompute nothing can be timed");
  check(options.rounds >= 1, op, ": rounds must be at least 1, got ", options.rounds);
  TrainingStepCase played_case = step;
  played_case.rows = step.smallest;
  const MemoryReport report = memory_report(played_case, {.strategies = options.strategies, .rounds = 0});
  int64_t without = 0;  // what fits without recompute
  for (const StrategyMemory& of : report.strategies)
    if (recompute::parse_strategy(of.strategy).kind == RecomputeStrategy::Kind::none) without = of.most_rows;
  std::vector<Candidate> candidates;
  for (const StrategyMemory& of : report.strategies) {
    const RecomputeStrategy strategy = recompute::parse_strategy(of.strategy);
    const int64_t least = strategy.kind == RecomputeStrategy::Kind::none ? 0 : without;
    for (int64_t rows : batches(of.most_rows, least, step.smallest))
      candidates.push_back({strategy, {of.strategy, rows}});
  }

  const PlayedStep played(op, played_case);
  auto play = [&](const Candidate& one) {
    played_case.rows = one.batch.rows;  // which `played` refers to
    played.set(one.strategy);
    return played.time_parts();
  };
  std::erase_if(candidates, [&](const Candidate& one) {  // and those that are left have run once
    try {
      play(one);
    } catch (const OutOfMemory&) {
      step.model.zero_grad();
      return true;
    }
    return false;
  });
  const std::vector<Turns> times =
      time_in_turns(candidates.size(), options.rounds, [&](size_t which) { return play(candidates[which]); });
  std::vector<TimedBatch> timed;
  for (size_t i = 0; i < times.size(); ++i) {
    candidates[i].batch.seconds = times[i].seconds.median;
    timed.push_back(candidates[i].batch);
  }
  std::ranges::stable_sort(timed, std::ranges::greater(), &TimedBatch::rows_per_second);
  return timed;
}

}  // namespace reprise::nn
