// Strategy: what a model's `recompute` option says, as text and as a plan for its chain of layers.
//
//   rp::nn::Gpt model({.recompute = rp::parse_strategy("every:3")});
#pragma once

#include <optional>
#include <string_view>

#include "reprise/autograd/recompute/planner/plan.h"

namespace reprise::recompute {

/// Which layers of a model are played again in backward. Programs call it RecomputeStrategy, and write it as text.
struct Strategy {
  /// The words that a text begins with; `automatic` is "auto".
  enum class Kind : uint8_t {
    none,       ///< no layer is a region: nothing is played again
    full,       ///< each layer is a region
    selective,  ///< each layer is, with the policy named `policy`
    every,      ///< each `count`-th layer is
    keep,       ///< each layer is but each `count`-th
    segments,   ///< `count` regions of nearly equal length, the last plain; 0: ceil(sqrt(layers))
    layers,     ///< the layers in `layers` are
    offload,    ///< each layer is, with that policy if one is named, and the regions' inputs wait off the
                ///< device
    plan,       ///< those of `plan`
    automatic,  ///< what a planner finds for `memory_budget` or `memory_percent`
  };
  Kind kind = Kind::none;         ///< how the layers are chosen
  int64_t count = 0;              ///< of every, keep and segments
  std::vector<int64_t> layers{};  ///< of layers: their places in the chain, from 0
  Plan plan{};                    ///< of plan: what a planner has found before
  std::string policy{};           ///< of policy.h: "save_attention"; empty: for selective, recompute_cheap
  size_t memory_budget = 0;       ///< bytes; 0: none given
  /// In place of bytes: so far from the least memory that a plan takes, 0, to what no recompute takes, 100.
  std::optional<double> memory_percent{};

  bool operator==(const Strategy&) const = default;
};

/// "none", "full", "selective", "selective:save_attention", "every:3", "keep:3", "segments:4", "sqrt", "layers:2,5,8",
/// "offload", "offload:recompute_cheap", "plan:[0-2] 3-4 [5]" (as `to_string` writes plans), "auto:2GiB" or "auto:50%".
/// Error naming what is wrong and what there is.
Strategy parse_strategy(std::string_view text);
/// What parse_strategy reads.
std::string to_string(const Strategy& strategy);

/// The plan for a chain of n layers. Error if they are too few, and for `automatic`, which needs
/// measurements.
Plan plan_of(const Strategy& strategy, int64_t n);
/// What the regions of that plan are called with; `offload` gets a store of its own.
CheckpointOptions options_of(const Strategy& strategy);

}  // namespace reprise::recompute

namespace reprise {
using RecomputeStrategy = recompute::Strategy;  ///< what a model's `recompute` option takes
using recompute::parse_strategy;
}  // namespace reprise
