// Attention from one sequence to another, or to itself, under any mask.
#pragma once

#include "reprise/nn/linear.h"

namespace reprise::nn {

struct CrossAttentionOptions {
  int64_t context_width = 0;  ///< of what keys and values are made of; 0: width
  int64_t kv_heads = 0;       ///< of keys and values, each for heads / kv_heads of queries; 0: heads
  bool bias = true;
  double dropout = 0;  ///< of the probabilities, in training
};

/// Multi-head attention (Vaswani et al. 2017): x (B, T, width), context (B, S, context_width) -> (B, T, width). The mask, if one
/// is given, is as of `masked_attention`: (T, S), or what broadcasts to (B, heads, T, S), such as (B, 1, 1, S) for padding; true
/// where a token of x sees one of the context. Without it each sees all, and no (T, S) matrix is kept. Error unless heads
/// divide width, and kv_heads the heads.
class CrossAttention : public Module {
 public:
  CrossAttention(int64_t width, int64_t heads, const CrossAttentionOptions& options = {}, Device device = {});
  Tensor operator()(const Tensor& x, const Tensor& context, const Tensor& mask = {});

  Linear q_proj, k_proj, v_proj, out_proj;

 private:
  int64_t heads_, kv_heads_;
  double dropout_;
};

}  // namespace reprise::nn
