// Attention from one sequence to another, or to itself, under any mask.
#pragma once

#include "reprise/nn/described.h"
#include "reprise/nn/linear.h"

namespace reprise::nn {

/// What a CrossAttention is made with.
struct CrossAttentionOptions {
  int64_t context_width = 0;  ///< of what keys and values are made of; 0: width
  int64_t kv_heads = 0;       ///< of keys and values, each for heads / kv_heads of queries; 0: heads
  bool bias = true;           ///< of all four projections
  double dropout = 0;         ///< of the probabilities, in training
  bool causal = false;        ///< token t of T sees none of the context after t + S - T, of S
  /// Token t of T sees fewer tokens of the context than this from t + S - T alone, of S: where it is causal, that one and the
  /// window - 1 before it. 0: all.
  int64_t window = 0;
};

/// Multi-head attention (Vaswani et al. 2017): x (B, T, width), context (B, S, context_width) -> (B, T, width). The mask, if one
/// is given, is as of `masked_attention`: (T, S), or what broadcasts to (B, heads, T, S), such as (B, 1, 1, S) for padding; true
/// where a token of x sees one of the context. Without it each sees all
/// that `causal` and `window` leave. No (T, S) matrix is kept. Error unless heads
/// divide width, and kv_heads the heads.
class CrossAttention : public Layer, public Described {
 public:
  /// `heads` heads of width / heads channels each; linear layers as PyTorch's. Error unless dropout is in [0, 1),
  /// or if window is negative.
  CrossAttention(int64_t width, int64_t heads, const CrossAttentionOptions& options = {}, Device device = {});
  /// Queries are of x, keys and values of `context`, which is x again in self-attention. Hooks see x.
  Tensor operator()(const Tensor& x, const Tensor& context, const Tensor& mask = {}) const {
    return call_with(x, {context, mask});
  }
  using Layer::operator();
  /// Attention of x to itself.
  Tensor forward(const Tensor& x) override { return forward_with(x, {x, {}}); }
  /// Beside x: the context and the mask, which may be undefined.
  Tensor forward_with(const Tensor& x, const TensorList& beside) override;
  std::string extra_repr() const override;

  Linear q_proj;    ///< weight (width, width)
  Linear k_proj;    ///< weight (kv_heads * width / heads, context_width)
  Linear v_proj;    ///< weight of the same shape
  Linear out_proj;  ///< weight (width, width), of the joined heads

 private:
  int64_t heads_, kv_heads_;
  double dropout_;
  bool causal_;
  int64_t window_;
};

}  // namespace reprise::nn
