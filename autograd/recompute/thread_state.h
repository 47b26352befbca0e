// ThreadState: what a thread has set for the operations that run on it: the scopes of autocast, the precision of f32
// products, tensors that stand for others, and what users add. A replay runs under what the first run had, whatever holds where
// backward is called.
#pragma once

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/leaf/substitution.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/kernels/gemm/matmul_precision.h"

namespace reprise::recompute {

/// For code that adds such a state: from now on each region, in either mode, calls `note` before its first
/// run, and what that gives makes the scopes that its replays run in. Each replay enters a new one: a cache
/// in it belongs to that replay. Several states are independent of each other.
///
///   rp::restore_in_replays([] {
///     return [tint = current_tint()] { return std::make_shared<TintScope>(tint); };
///   });
void restore_in_replays(std::function<ScopeFactory()> note);

/// What a thread had set when this was made: a region notes it, and its replays run under it.
class ThreadState {
 public:
  ThreadState() = default;
  /// This thread's.
  static ThreadState now();
  /// It holds as long as these live.
  std::vector<std::shared_ptr<void>> enter() const;
  const amp::AutocastState& autocast() const { return autocast_; }           ///< as it was noted
  MatmulPrecision matmul_precision() const { return matmul_precision_; }     ///< as it was noted
  const autograd::Substitutes& substitutes() const { return substitutes_; }  ///< as they were noted

 private:
  amp::AutocastState autocast_ = amp::autocast_state();
  MatmulPrecision matmul_precision_ = reprise::matmul_precision();
  autograd::Substitutes substitutes_ = autograd::current_substitutes();
  std::vector<ScopeFactory> scopes_;
};

}  // namespace reprise::recompute

namespace reprise {
using recompute::restore_in_replays;
}
