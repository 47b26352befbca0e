// Policy: which results of a region's operations stay in memory (selective recompute; Korthikanti et al.
// 2022).
//
//   rp::checkpoint(fn, x, {.policy = {"linear", "attention"}});  // saves these, plays all else again
//   rp::checkpoint(fn, x, {.policy = rp::recompute_cheap()});
//   rp::checkpoint(fn, x, {.policy = [](const rp::PolicyOp& op) { ...; }});  // see Decision
//
// A policy is asked once for each operation of the first run. What it wants saved is kept only if backward or
// an operation that is played again reads it.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/autograd/op_cost.h"

namespace reprise::recompute {

/// What a region does with an operation's results when it ends.
enum class Decision : uint8_t {
  save,       ///< the operation's results stay
  recompute,  ///< it is played again
  offload,    ///< its results stay, off the device: in the store of CheckpointOptions::offload
};

/// One operation of a region.
struct PolicyOp {
  std::string_view name{};       ///< as in the trace: "linear"
  std::vector<Shape> inputs{};   ///< of its tensor arguments; rank 0 for an absent one
  std::vector<Shape> results{};  ///< of its results, in their order
  autograd::OpCost cost{};       ///< as the operation declares it
  /// This first run is itself part of the replay of a region around. If that is non-reentrant, the answer
  /// must be that of its first run: what is kept then is compared like what is saved.
  bool replaying = false;
};

/// What a region is to keep: nothing, results of operations by name, or what a function decides; see the head of this file.
class Policy {
 public:
  /// Asked once for each operation; its answers must depend on the operation alone.
  using Function = std::function<Decision(const PolicyOp&)>;

  Policy() = default;  ///< none: everything is played again
  /// Saves the results of the operations with these names.
  Policy(std::initializer_list<std::string> saved) : Policy(std::set<std::string, std::less<>>(saved)) {}
  explicit Policy(std::set<std::string, std::less<>> saved);  ///< the same of a set
  /// Asks `fn`.
  template <class Fn>
  requires std::is_invocable_r_v<Decision, Fn, const PolicyOp&> Policy(Fn fn) : function_(std::move(fn)) {}

  explicit operator bool() const { return bool(function_); }               ///< whether there is one
  Decision operator()(const PolicyOp& op) const { return function_(op); }  ///< only where there is one

 private:
  Function function_;
};

/// Saves what matrix products and convolutions give, attention included.
Policy save_matmuls();
/// Saves what attention gives.
Policy save_attention();
/// Plays again what gives many bytes for few operations, and saves all else: norms, activations, dropout,
/// attention where the sequence is no longer than the width, and projections that a residual is added to.
Policy recompute_cheap();

}  // namespace reprise::recompute
