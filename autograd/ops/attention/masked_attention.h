// Attention with a mask of any form.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise {

/// Options of `masked_attention`.
struct MaskedAttentionOptions {
  bool causal = false;  ///< besides the mask: query t of T sees no key after t + S - T, of S
  /// Query t of T sees keys fewer than this from t + S - T alone: where it is causal, its own and the window - 1 before it. 0:
  /// all.
  int64_t window = 0;
  double scale = 0;                ///< 0: 1 / sqrt(head_dim)
  double dropout = 0;              ///< of the probabilities, in [0, 1)
  Generator* generator = nullptr;  ///< of the dropout: one offset per call; null: the thread's
};
/// What a checkpoint compares of a call: see autograd/attributes.h.
void for_each_attribute(const MaskedAttentionOptions& options, const auto& visit) {
  visit(options.causal), visit(options.window), visit(options.scale), visit(options.dropout);
}

/// Scaled dot-product attention: q (B, H, T, D), k and v (B, H_kv, S, D) -> (B, H, T, D), grouped-query heads where H_kv < H. The
/// mask broadcasts to (B, H, T, S): bool, true where a query sees a key; or of a floating dtype, added to the scores, where
/// numbers of -1e30 and below hide a key, as -inf does. A query that sees no key gets 0, and no gradient. (torch
/// scaled_dot_product_attention.) No T x S matrix is kept, and none is made, but while a mask that requires grad gets its
/// gradient.
///
/// Without a mask it is `attention`, within the window if there is one. A window alone costs T + S bits, each a byte, which are made
/// and let go in each pass, and keys that it hides cost no products (Beltagy et al. 2020, Longformer; Jiang et al. 2023, Mistral
/// 7B). Beside a mask the two are joined for each pass, at the bytes of a T x S matrix or of a larger mask.
Tensor masked_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        const MaskedAttentionOptions& options = {});

}  // namespace reprise
