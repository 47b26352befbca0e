// einsum: sums of products, in Einstein's notation.
#pragma once

#include <string_view>

#include "reprise/core/tensor.h"

namespace reprise {

/// `einsum("bqd,bkd->bqk", {q, k})`: each letter is a dimension. What the result does not have is summed over; a letter that
/// comes twice in one operand takes its diagonal; "..." stands for dimensions that broadcast. Without "->" the result has
/// those of "..." and the letters that come once, in the order of ASCII. Spaces count nothing. Operands are taken from the
/// left, two at a time, each pair as one batched product (`matmul`); a sum over one operand alone is taken before. Error,
/// naming the letter, if sizes differ, and on an equation that does not fit its operands. (As NumPy and PyTorch have it.)
Tensor einsum(std::string_view equation, const TensorList& operands);

}  // namespace reprise
