// Half types are storage. What is built from several operations, a composite or a derivative, computes in f32
// and rounds once, as the kernels do: a square of f16 overflows from 256 on.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise::autograd {

inline bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// x, in f32 if its dtype is a half type; an undefined tensor stays undefined.
inline Tensor widened(const Tensor& x) { return x.defined() && is_half(x.dtype()) ? cast(x, DType::f32) : x; }

/// f(x, more...), computed in f32 if x is of a half type, and rounded once to the dtype of x.
template <class F, class... More>
Tensor in_f32(const F& f, const Tensor& x, const More&... more) {
  return cast(f(widened(x), widened(more)...), x.dtype());
}

}  // namespace reprise::autograd
