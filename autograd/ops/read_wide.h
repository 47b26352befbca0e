// For operations that are made of several others, compute in f32 and read 16 bits where they lie.
#pragma once

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise::autograd {

/// x of 16 bits as it lies, repeated to `shape`, but what reads it gives gradients in f32: they are added in f32 and rounded once, as behind a
/// cast to f32. `expand` where x has another dtype or is in no graph.
Tensor with_wide_gradient(const Tensor& x, const Shape& shape);

/// f(x) in f32, with the bits of f(cast(x, f32)), for an x of 16 bits: f reads it in a scope of autocast, so by `*`, `-` and `/` beside f32 and
/// by operations of the policy f32 alone. An f that gives x to any other must not be used here: see reading_half
/// (read_half.h). The scope is of bf16 for f16 as well, as no product runs in it. f(x) of other dtypes. With `shape` of x repeated to it.
template <class F>
Tensor reading_wide(const F& f, const Tensor& x, const Shape& shape) {
  if (!is_half(x.dtype())) return f(x.shape() == shape ? x : expand(x, shape));
  const amp::Autocast scope(x.device(), DType::bf16);
  return f(with_wide_gradient(x, shape));
}
template <class F>
Tensor reading_wide(const F& f, const Tensor& x) {
  return reading_wide(f, x, x.shape());
}

}  // namespace reprise::autograd
