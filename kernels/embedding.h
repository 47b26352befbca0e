// Embedding: rows of a table.  y[i, :] = weight[indices[i], :]
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// weight (V, C), indices i64 (any shape), y (indices..., C). Error on an index outside [0, V), with its
/// place.
extern Kernel<void(const TensorView& weight, const TensorView& indices, const TensorView& y)> embedding;

/// dweight[indices[i], :] += dy[i, :], in the order of i. Indices were checked by the forward pass.
extern Kernel<void(const TensorView& dy, const TensorView& indices, const TensorView& dweight)>
    embedding_backward;

}  // namespace reprise::kernels
