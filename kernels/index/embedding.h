// Embedding: rows of a table.  y[i, :] = weight[indices[i], :]
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// weight (V, C), indices i64 (any shape), y (indices..., C), of one dtype, or each f32, bf16 or f16. Error on an index outside [0, V), with its
/// place: at once on the CPU; on CUDA that row of y is zero, and the Error is thrown where the host next
/// waits for the device.
extern Kernel<void(const TensorView& weight, const TensorView& indices, const TensorView& y)> embedding;

/// dweight[indices[i], :] += dy[i, :], in the order of i, in f32 (f64 for f64), rounded once. The same bits
/// on every device. Indices were checked by the forward pass; CUDA leaves out, and reports, those outside [0,
/// V).
extern Kernel<void(const TensorView& dy, const TensorView& indices, const TensorView& dweight)>
    embedding_backward;

// Columns at which the CPU's backward is cut in another way.
inline constexpr int64_t kEmbeddingBlock = 64;   ///< that are added up at once
inline constexpr int64_t kEmbeddingSlice = 128;  ///< of a task

}  // namespace reprise::kernels
