// Half types are storage. What is built from several operations, a composite or a derivative, computes in f32
// and rounds once, as the kernels do: a square of f16 overflows from 256 on.
#pragma once

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise::autograd {

inline bool is_half(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

/// Whether numbers of the two dtypes meet in f32: both are f32 or of 16 bits.
inline bool meet_in_f32(DType a, DType b) {
  auto fits = [](DType dtype) { return dtype == DType::f32 || is_half(dtype); };
  return fits(a) && fits(b);
}

/// x, in f32 if it holds whole numbers or bool, whose quotients and exponentials have fractions; an undefined tensor stays undefined.
/// (PyTorch: the default dtype.)
inline Tensor with_fractions(const Tensor& x) {
  return x.defined() && !is_floating(x.dtype()) ? cast(x, DType::f32) : x;
}

/// x, in f32 if its dtype is a half type; an undefined tensor stays undefined.
inline Tensor widened(const Tensor& x) { return x.defined() && is_half(x.dtype()) ? cast(x, DType::f32) : x; }

/// x in `dtype`, for the inside of an operation: where a graph of it is recorded by `cast`, else without an operation of
/// its own.
inline Tensor converted(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype || grad_mode_enabled()) return cast(x, dtype);
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  kernels::copy(current_stream(x.device()), x, y);
  return y;
}

/// f(x, more...), computed in f32 if x is of a half type, and rounded once to the dtype of x.
template <class F, class... More>
Tensor in_f32(const F& f, const Tensor& x, const More&... more) {
  return cast(f(widened(x), widened(more)...), x.dtype());
}

/// The same for the inside of an operation.
template <class F, class... More>
Tensor in_f32_inside(const F& f, const Tensor& x, const More&... more) {
  auto wide = [](const Tensor& part) {
    return part.defined() && is_half(part.dtype()) ? converted(part, DType::f32) : part;
  };
  return converted(f(wide(x), wide(more)...), x.dtype());
}

}  // namespace reprise::autograd
