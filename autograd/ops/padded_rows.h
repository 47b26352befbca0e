// Rows that begin where wide accesses may. A row of an odd number of 16-bit numbers, such as logits of GPT-2's 50,257 tokens,
// ends in the middle of such an access, and so do all rows behind it: cuBLASLt has only slow kernels for them then, for the
// product that writes them and for the two that read their gradient. The distance of rows is free, their length is not.
#pragma once

#include "reprise/autograd/ops/raw.h"
#include "reprise/core/data_observer.h"

namespace reprise::autograd {

inline constexpr int64_t kAccessBytes =
    16;  ///< of the widest access, and what cuBLASLt and TMA ask of a stride
inline constexpr int64_t kPaddedRowBytes = 128;   ///< rows apart begin at lines of the cache, too
inline constexpr int64_t kWidestTogether = 1024;  ///< columns; padding takes at most 6 % of longer ones

/// The memory of `shape`: with longer rows where it is on a CUDA device and they would else begin between accesses.
inline Shape padded_shape(const Shape& shape, DType dtype, Device device) {
  Shape held = shape;
  if (!device.is_cuda() || shape.size() < 2 || shape.back() <= kWidestTogether) return held;
  const int64_t size = int64_t(size_of(dtype)), bytes = shape.back() * size;
  if (bytes % kAccessBytes != 0)
    held[shape.size() - 1] = (bytes + kPaddedRowBytes - 1) / kPaddedRowBytes * kPaddedRowBytes / size;
  return held;
}

/// Not initialised; the rows are apart as `padded_shape` says, and what lies between them is nobody's.
inline Tensor empty_padded(const Shape& shape, DType dtype, Device device) {
  const Tensor memory = Tensor::empty(padded_shape(shape, dtype, device), dtype, device);
  TensorView rows = memory.view();
  rows.shape = shape;
  return memory.alias(rows);
}

/// The hollow tensor of the same form.
inline Tensor hollow_padded(const Shape& shape, DType dtype, Device device) {
  return Tensor::hollow(
      {nullptr, shape, contiguous_strides(padded_shape(shape, dtype, device)), dtype, device});
}

/// Not initialised, of the form of a matrix, for what is computed row by row beside it: contiguous if that is, so that the
/// rows of both begin alike.
inline Tensor empty_beside(const Tensor& x) {
  return x.is_contiguous() ? autograd::raw_empty_like(x) : empty_padded(x.shape(), x.dtype(), x.device());
}

/// Whether the rows of x lie in memory as those of `empty_beside` do, so that what is computed in their place has the bits of
/// what is computed beside them: kernels and libraries add in an order that depends on where rows begin.
inline bool lies_as_beside(const Tensor& x) {
  if (x.rank() == 0 || x.is_hollow()) return false;
  SetDataObserver unseen(nullptr);  // nothing is read
  const TensorView& view = x.view();
  if (view.device.is_cuda() && reinterpret_cast<uintptr_t>(view.data) % kAccessBytes != 0) return false;
  if (view.is_contiguous()) return true;
  TensorView rows;
  const Shape shape{numel_of(rows_shape(x)), x.size(-1)};
  return try_reshape(view, shape, rows) &&
         rows.strides == contiguous_strides(padded_shape(shape, view.dtype, view.device));
}

}  // namespace reprise::autograd
