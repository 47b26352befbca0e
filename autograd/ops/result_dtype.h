// The dtype that a norm or a softmax gives, which kernels write whatever their input has.
#pragma once

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"

namespace reprise::autograd {

/// Error naming `op` unless a result of x may have the dtype that was asked for.
inline void check_result_dtype(const char* op, const Tensor& x, DType out) {
  const bool fits =
      is_floating(x.dtype()) && is_floating(out) && (x.dtype() == DType::f64) == (out == DType::f64);
  check(fits, op, ": out is ", out, ", which does not fit an input in ", x.dtype());
}

/// What was asked for; else f32 under autocast, also of 16 bits; else the dtype of x.
inline DType softmax_dtype(const char* op, const Tensor& x, const ResultOptions& result) {
  check_given(op, x);
  if (result.out) check_result_dtype(op, x, *result.out);
  const bool widens = amp::autocast_dtype(x.device()) && is_floating(x.dtype()) && x.dtype() != DType::f64;
  return result.out.value_or(widens ? DType::f32 : x.dtype());
}

/// The same for a norm of x and what is added to it, x itself where nothing is. Under Norms::as_given it is their dtype.
inline DType norm_dtype(const char* op, const Tensor& x, const Tensor& added, const ResultOptions& result) {
  const DType given = softmax_dtype(op, x, result);
  check_given(op, added);
  const bool keeps = amp::autocast_state().of(x.device()).norms == amp::Norms::as_given;
  return keeps && !result.out ? promote(x.dtype(), added.dtype()) : given;
}

}  // namespace reprise::autograd
