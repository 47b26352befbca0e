// Borders around a tensor of any rank: of one value, or of its own elements. Of images: `pad` of autograd/ops.h.
#pragma once

#include <cstdint>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise {

/// x with borders of `value`, which are listed from the last dimension backwards: {left, right, top, bottom, ...}. A negative one cuts
/// that many elements off. Any dtype; always a copy. Error on an odd number of borders, on more than x has dimensions, and where
/// a dimension is cut by more than it has.
Tensor constant_pad(const Tensor& x, const std::vector<int64_t>& borders, double value = 0);

/// Which of its own elements a border is made of: of 0 1 2 3, two before and after.
enum class Border : uint8_t {
  reflect,  ///< 2 1 | 0 1 2 3 | 2 1: mirrored at the last element, which is not repeated; shorter than the dimension
  replicate,  ///< 0 0 | 0 1 2 3 | 3 3
  circular    ///< 2 3 | 0 1 2 3 | 0 1: at most as long as the dimension
};
/// x with such borders, listed as for `constant_pad`; negative ones cut. Any dtype. Error if a border is longer than its kind can be,
/// and as of `constant_pad`. Several borders that read one element add their gradients in order.
Tensor pad(const Tensor& x, const std::vector<int64_t>& borders, Border border);

}  // namespace reprise
