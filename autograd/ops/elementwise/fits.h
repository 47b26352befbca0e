// What `a += b` and its like check, whatever a is.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Error naming `op` unless the result of a and b has a's shape, and fits in its dtype.
inline void check_fits(const char* op, const Tensor& a, const Tensor& b) {
  check_given(op, a, b);
  check(broadcast_shapes(a.shape(), b.shape(), op) == a.shape(), op, ": ", b.shape(),
        " does not broadcast to ", a.shape());
  check(is_floating(a.dtype()) || !is_floating(b.dtype()), op, ": the result of ", a.dtype(), " and ",
        b.dtype(), " does not fit in ", a.dtype());
}
inline void check_fits(const char* op, const Tensor& a, double) { check_given(op, a); }

/// `result`, what `op` makes of a, in a's dtype. Error if that would lose a fraction.
inline Tensor fitting(const char* op, const Tensor& a, const Tensor& result) {
  check(is_floating(a.dtype()) || !is_floating(result.dtype()), op, ": the result, ", result.dtype(),
        ", does not fit in ", a.dtype());
  return cast(result, a.dtype());
}

}  // namespace reprise::autograd
