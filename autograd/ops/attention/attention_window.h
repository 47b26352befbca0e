// The window of `masked_attention`: which keys lie near enough to a query, as masks for kernels and for composites.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Query t of T stands where key t + S - T of S does, and sees the keys fewer than `size` from there.
struct AttentionWindow {
  int64_t size;           ///< 0: all keys
  int64_t queries, keys;  ///< T and S

  /// Whether a call has to care: some key is too far from some query, and not hidden by `causal` already.
  bool hides(bool causal) const;
  /// (T, S) in bool, by operations.
  Tensor matrix(Device device) const;
};

/// A mask as kernels take it, of (B, H, T, S). `owner` holds what the view lies in.
struct KernelMask {
  Tensor owner;
  TensorView view;
};

/// The window alone: a view over one row of T + S - 1 bits, in which each query begins one bit before the query above it.
KernelMask window_mask(const AttentionWindow& window, const Shape& scores, Device device);
/// A mask of bits, or of numbers, within the window: as large as the mask and the (T, S) matrix broadcast.
KernelMask mask_in_window(const Tensor& mask, const AttentionWindow& window, const Shape& scores);

}  // namespace reprise::autograd
