// What a recorded operation in place writes into: a copy of its tensor, or the memory itself.
#pragma once

#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/overlap.h"

namespace reprise::autograd {

/// Whether an operation may write into the memory of its first argument and return that, because nothing else can see it. It says
/// nothing of the result: a checkpoint does not compare it, since one run may write where another one copies.
struct Overwrite {
  bool allowed = false;

  /// Of a tensor that one handle has, whose memory nothing shares, where all observers let it be written.
  static Overwrite of(const Tensor& x) {
    return {x.is_sole_owner() && !x.is_hollow() && !x.is_fixed() && !x.storage()->is_for_inference() &&
            !overlaps_itself(x.view()) && OpObserver::all_let_overwrite(x)};
  }

  /// `x`, or a copy that may be written; observers are not told which, so that two runs of a region look alike.
  Tensor target(const Tensor& x) const {
    if (!allowed) {
      HideOpObservers unseen;
      return clone(x);
    }
    x.storage()->bump_version();
    return x.alias();
  }
};

}  // namespace reprise::autograd
