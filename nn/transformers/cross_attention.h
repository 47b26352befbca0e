// Attention from one sequence to another, or to itself, under any mask.
#pragma once

#include "reprise/nn/linear.h"

namespace reprise::nn {

/// What a CrossAttention is made with.
struct CrossAttentionOptions {
  int64_t context_width = 0;  ///< of what keys and values are made of; 0: width
  int64_t kv_heads = 0;       ///< of keys and values, each for heads / kv_heads of queries; 0: heads
  bool bias = true;           ///< of all four projections
  double dropout = 0;         ///< of the probabilities, in training
};

/// Multi-head attention (Vaswani et al. 2017): x (B, T, width), context (B, S, context_width) -> (B, T, width). The mask, if one
/// is given, is as of `masked_attention`: (T, S), or what broadcasts to (B, heads, T, S), such as (B, 1, 1, S) for padding; true
/// where a token of x sees one of the context. Without it each sees all. No (T, S) matrix is kept. Error unless heads
/// divide width, and kv_heads the heads.
class CrossAttention : public Module {
 public:
  /// `heads` heads of width / heads channels each; linear layers as PyTorch's. Error unless dropout is in [0, 1).
  CrossAttention(int64_t width, int64_t heads, const CrossAttentionOptions& options = {}, Device device = {});
  /// Queries are of x, keys and values of `context`, which is x again in self-attention.
  Tensor operator()(const Tensor& x, const Tensor& context, const Tensor& mask = {}) const;

  Linear q_proj;    ///< weight (width, width)
  Linear k_proj;    ///< weight (kv_heads * width / heads, context_width)
  Linear v_proj;    ///< weight of the same shape
  Linear out_proj;  ///< weight (width, width), of the joined heads

 private:
  int64_t heads_, kv_heads_;
  double dropout_;
};

}  // namespace reprise::nn
