#include "reprise/nn/memory/compare_strategies.h"

#include <algorithm>

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

std::vector<StrategyCost> compare(const PlayedStep& played, const std::vector<NamedStrategy>& strategies,
                                  int64_t rounds) {
  std::vector<StrategyCost> costs;
  for (const NamedStrategy& strategy : strategies) {
    strategy.set();
    played.play_parts();  // makes what is made once, such as the plan of `auto`
    costs.push_back(recorded(played, strategy.name));
  }
  const std::vector<Turns> times = time_in_turns(strategies.size(), rounds, [&](size_t i) {
    strategies[i].set();
    return played.time_parts();
  });
  for (size_t i = 0; i < times.size(); ++i)
    costs[i].seconds = times[i].seconds, costs[i].times_slower = times[i].times_slower;
  allocator(played.device()).reset_peaks();
  return costs;
}

}  // namespace

std::vector<StrategyCost> compare_strategies(const TrainingStepCase& step,
                                             const std::vector<NamedStrategy>& strategies, int64_t rounds) {
  return compare(PlayedStep("compare_strategies", step, PlayedStep::Blocks::others), strategies, rounds);
}

std::vector<StrategyCost> compare_strategies(const TrainingStepCase& step, const CompareOptions& options) {
  const PlayedStep played("compare_strategies", step);
  std::vector<NamedStrategy> strategies;
  for (const std::string& text : options.strategies) {
    const RecomputeStrategy strategy = recompute::parse_strategy(text);
    if (!played.has(strategy)) continue;
    if (strategy.kind == RecomputeStrategy::Kind::automatic)  // planned once, off the clock
      strategies.push_back({text, [&played, plan = played.planned(strategy)] { played.set(plan); }});
    else
      strategies.push_back({text, [&played, strategy] { played.set(strategy); }});
  }
  return compare(played, strategies, options.rounds);
}

}  // namespace reprise::nn
