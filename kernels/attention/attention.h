// Scaled dot-product attention by blocks (Dao 2023, FlashAttention-2):
//   O = softmax(scale * Q K^T + mask) V
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

/// Numbers of a mask from here down hide their key instead of being added: -inf does, and so do the lowest numbers of
/// bf16 and f32, beside which a score would be lost to rounding.
inline constexpr double highest_that_hides = -1e30;
template <class C>
constexpr bool hides(C number) {
  return number <= C(highest_that_hides);
}

/// q, out (B, H, T_q, D); k, v (B, H_kv, T_k, D); H is a multiple of H_kv (grouped-query attention, Ainslie
/// et al. 2023: head h reads kv head h / (H / H_kv)). Any strides but 1 in the last dimension, so all may be
/// slices of one packed (B, T, 3, H, D) tensor. lse (B, H, T_q), f32 (f64 for f64), contiguous, optional.
///
/// mask (B, H, T_q, T_k), optional, with any strides, 0 where it broadcasts; a causal call hides later keys besides.
/// Bool: true where the query sees the key. Or f32 (f64 for f64) or the dtype of q: a number that is added to the
/// scaled score, where `hides` hides the key. A query that sees no key gets 0, the lse -inf and no gradients.
struct AttentionArguments {
  TensorView q, k, v;
  AttentionOptions options{};
  TensorView out;
  TensorView lse{};
  TensorView mask{};
};
extern Kernel<void(const AttentionArguments& arguments)> attention;

/// dq, dk and dv are overwritten; strided like the inputs. The mask is forward's; it gets no gradient here.
struct AttentionBackwardArguments {
  TensorView dout, q, k, v, out, lse;
  AttentionOptions options{};
  TensorView dq, dk, dv;
  TensorView mask{};
};
extern Kernel<void(const AttentionBackwardArguments& arguments)> attention_backward;

}  // namespace reprise::kernels
