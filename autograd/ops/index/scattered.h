// Scatters along the last dimension: the transpose of gather, and the one that sets.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise::autograd {

/// The beginning of x in its first `dims` dimensions, as long as `sizes` says: x itself where nothing is cut.
template <class X>
X beginning(const X& x, const Shape& sizes, int dims) {
  X part = x;
  for (int d = 0; d < dims; ++d)
    if (sizes[d] < part.size(d)) part = slice(part, d, 0, sizes[d]);
  return part;
}

/// Zeros of `shape`, to which y[..., index[..., i]] += x[..., i], in the order of i. The index may be smaller than the
/// zeros in the dimensions before the last. Differentiable in x.
Tensor scattered(const Tensor& x, const Tensor& index, const Shape& shape);

/// x, then y[..., index[..., i]] = source[..., i]; of equal places in a row the last i stays. The index may be
/// smaller than x in the dimensions before the last. Differentiable in x and the source.
Tensor scattered_into(const Tensor& x, const Tensor& index, const Tensor& source);

}  // namespace reprise::autograd
