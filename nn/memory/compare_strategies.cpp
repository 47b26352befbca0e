#include "reprise/nn/memory/compare_strategies.h"

#include <algorithm>
#include <chrono>

#include "reprise/core/stream.h"
#include "reprise/nn/memory/memory_timeline.h"
#include "reprise/nn/memory/played_step.h"

namespace reprise::nn {
namespace {

StrategyCost recorded(const PlayedStep& played, const std::string& name) {
  Allocator& memory = allocator(played.device());
  memory.reset_peaks();
  StrategyCost cost{.strategy = name};
  MemoryRecorder recorder(played.device());
  played.play_parts({.before_backward = [&](const Tensor&) {
    cost.held = MemoryPoint{0, memory.stats().by_category}.activations();
  }});
  cost.peak_activations = recorder.finish().peak_activations();
  cost.peak = memory.stats().peak_held;
  return cost;
}

double timed(const PlayedStep& played) {
  using Clock = std::chrono::steady_clock;
  synchronize(played.device());
  const auto begin = Clock::now();
  played.play_parts();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<StrategyCost> compare(const PlayedStep& played, const std::vector<RecomputeWay>& ways,
                                  int64_t rounds) {
  std::vector<StrategyCost> costs;
  for (const RecomputeWay& way : ways) {
    way.set();
    played.play_parts();  // makes what is made once, such as the plan of `auto`
    costs.push_back(recorded(played, way.name));
  }
  std::vector<std::vector<double>> seconds(ways.size()), ratios(ways.size());
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < ways.size(); ++i) {
      const size_t turn = (i + size_t(round)) % ways.size();
      ways[turn].set();
      seconds[turn].push_back(timed(played));
    }
    for (size_t i = 0; i < ways.size(); ++i) ratios[i].push_back(seconds[i].back() / seconds[0].back());
  }
  for (size_t i = 0; i < ways.size() && rounds > 0; ++i) {
    costs[i].seconds = spread_of(seconds[i]);
    costs[i].times_slower = spread_of(ratios[i]).median;
  }
  allocator(played.device()).reset_peaks();
  return costs;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  check(!values.empty(), "spread_of: of no values");
  std::ranges::sort(values);
  const size_t middle = values.size() / 2;
  const double median = values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {values.front(), median, values.back()};
}

std::vector<StrategyCost> compare_ways(const TrainingStepCase& step, const std::vector<RecomputeWay>& ways,
                                       int64_t rounds) {
  return compare(PlayedStep("compare_ways", step, PlayedStep::Blocks::others), ways, rounds);
}

std::vector<StrategyCost> compare_strategies(const TrainingStepCase& step, const CompareOptions& options) {
  const PlayedStep played("compare_strategies", step);
  std::vector<RecomputeWay> ways;
  for (const std::string& text : options.strategies) {
    const RecomputeStrategy strategy = recompute::parse_strategy(text);
    if (!played.has(strategy)) continue;
    if (strategy.kind == RecomputeStrategy::Kind::automatic)  // planned once, off the clock
      ways.push_back({text, [&played, plan = played.planned(strategy)] { played.set(plan); }});
    else
      ways.push_back({text, [&played, strategy] { played.set(strategy); }});
  }
  return compare(played, ways, options.rounds);
}

}  // namespace reprise::nn
