// What strategies of recompute take and cost, measured in a training step of any model.
//
//   rp::nn::BlockStack net;  // ... its blocks
//   auto loss = [&](int64_t rows) { return rp::square(net(rp::randn({rows, 64}))).mean(); };
//   for (const rp::StrategyCost& s : rp::compare_strategies({.model = net, .loss = loss, .rows = 32}))
//     std::printf("%s: %zu bytes, %.1f ms\n", s.strategy.c_str(), s.peak, 1e3 * s.seconds.median);
#pragma once

#include "reprise/nn/memory/memory_report.h"
#include "reprise/nn/memory/turns.h"

namespace reprise::nn {

/// What a step takes and costs with a strategy.
struct StrategyCost {
  std::string strategy;  ///< as it was asked for
  size_t peak = 0;       ///< bytes held at most, of everything on the device
  size_t peak_activations =
      0;             ///< bytes asked for at most, of activations and of what recompute makes in their place
  size_t held = 0;   ///< of these, what is there between forward and backward
  Spread seconds{};  ///< of its timed steps
  double times_slower =
      1;  ///< than the first: the median over the rounds, in each of which the machine is as busy for all
};

/// What `compare_strategies` compares, and how long it times.
struct CompareOptions {
  /// As `parse_strategy` takes them. The first is the one that the others are compared with.
  std::vector<std::string> strategies{"none", "selective", "every:2", "keep:2", "sqrt", "full"};
  int64_t rounds = 5;  ///< of timed steps, in which the strategies take turns
};

/// Plays a step of `rows` with each strategy whose allocations are recorded, then `rounds` timed ones, in turns, so that whatever
/// else the machine does meets all of them. Strategies that need more blocks than there are, are left out. Without `update` the
/// model is as before, and the times are of forward and backward; its gradients are dropped, and the allocator's peaks begin anew.
/// Error naming a strategy that there is not, or that no plan fits; OutOfMemory if a step does not fit.
std::vector<StrategyCost> compare_strategies(const TrainingStepCase& step,
                                             const CompareOptions& options = {});

/// A strategy by its name and what sets it.
struct NamedStrategy {
  std::string name;           ///< in the results
  std::function<void()> set;  ///< is called before each step
};
/// The same for models with more to set than one stack of blocks; the last one stays set.
std::vector<StrategyCost> compare_strategies(const TrainingStepCase& step,
                                             const std::vector<NamedStrategy>& strategies, int64_t rounds);

}  // namespace reprise::nn

namespace reprise {
using nn::compare_strategies;
using nn::CompareOptions;
using nn::Spread;
using nn::StrategyCost;
}  // namespace reprise
