// For the inside of operations that read 16 bits where they lie and are made of several others.
#pragma once

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise::autograd {

/// f(x, more...), computed in f32 if x or another one is of a half type, and rounded once to `dtype`. Where no graph is recorded f gets them as
/// they are, in a scope of autocast: operations of the policy f32, and `*` and `-` beside f32, read them where they lie, and others
/// would round to 16 bits. In a graph f gets casts. (read_wide.h reads them there too, of one x and for fewer operations.) The scope is of
/// bf16 for f16 as well: no product runs in it.
template <class F, class... More>
Tensor reading_half(const F& f, DType dtype, const Tensor& x, const More&... more) {
  if (grad_mode_enabled()) return converted(f(widened(x), widened(more)...), dtype);
  if (!is_half(x.dtype()) && !(is_half(more.dtype()) || ...)) return converted(f(x, more...), dtype);
  const amp::Autocast scope(x.device(), DType::bf16);
  return converted(f(x, more...), dtype);
}

}  // namespace reprise::autograd
