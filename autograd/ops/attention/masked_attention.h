// Attention with a mask of any form.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise {

/// Options of `masked_attention`.
struct MaskedAttentionOptions {
  double scale = 0;                ///< 0: 1 / sqrt(head_dim)
  double dropout = 0;              ///< of the probabilities
  Generator* generator = nullptr;  ///< of the dropout; null: the thread's
};

/// Scaled dot-product attention: q (B, H, T, D), k and v (B, H_kv, S, D) -> (B, H, T, D), grouped-query heads where H_kv < H. The
/// mask broadcasts to (B, H, T, S): bool, true where a query sees a key; or of a floating dtype, added to the scores, with a
/// gradient if it wants one. A query that sees no key gets 0, and no gradient. (torch scaled_dot_product_attention.)
/// The (T, S) scores are kept for backward: for long sequences without a mask, or a causal one, take `attention`.
Tensor masked_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        const MaskedAttentionOptions& options = {});

}  // namespace reprise
