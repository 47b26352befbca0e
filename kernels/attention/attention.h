// Scaled dot-product attention by blocks (Dao 2023, FlashAttention-2):
//   O = softmax(scale * Q K^T + causal mask) V
// No T x T matrix is kept: forward saves the log-sum-exp of each row, backward rebuilds the probabilities
// from it.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

struct AttentionOptions {
  bool causal = true;  ///< query i sees keys up to i + (T_k - T_q)
  double scale = 0;    ///< 0 means 1 / sqrt(head_dim)
  double dropout = 0;  ///< drops probabilities, in [0, 1); element (b, h, i, j) row-major is the Philox index
  uint64_t seed = 0;
  uint64_t offset = 0;
};

/// q, out (B, H, T_q, D); k, v (B, H_kv, T_k, D); H is a multiple of H_kv (grouped-query attention, Ainslie
/// et al. 2023: head h reads kv head h / (H / H_kv)). Any strides but 1 in the last dimension, so all may be
/// slices of one packed (B, T, 3, H, D) tensor. lse (B, H, T_q), f32 (f64 for f64), contiguous, optional.
struct AttentionArguments {
  TensorView q, k, v;
  AttentionOptions options{};
  TensorView out;
  TensorView lse{};
};
extern Kernel<void(const AttentionArguments& arguments)> attention;

/// dq, dk and dv are overwritten; strided like the inputs.
struct AttentionBackwardArguments {
  TensorView dout, q, k, v, out, lse;
  AttentionOptions options{};
  TensorView dq, dk, dv;
};
extern Kernel<void(const AttentionBackwardArguments& arguments)> attention_backward;

}  // namespace reprise::kernels
