// The transformer block and its two halves (Vaswani et al. 2017; pre-norm as in GPT-2, Radford et al. 2019).
#pragma once

#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"

namespace reprise::nn {

struct BlockOptions {
  int64_t width = 0;
  int64_t heads = 1;
  int64_t hidden = 0;  ///< of the MLP; 0: 4 * width
  bool causal = true;
  bool bias = true;
  double dropout = 0;    ///< after each half, and of the attention probabilities
  double drop_path = 0;  ///< stochastic depth of each half
  double norm_eps = 1e-5;
  double init_stddev = 0;    ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;  ///< of the two that write to the residual stream; 0: as init_stddev
  Activation activation = Activation::gelu_tanh;
};

/// Multi-head self-attention: (B, T, width) -> (B, T, width), one packed projection for q, k and v.
class MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const BlockOptions& options, Device device = {});
  /// attention(x) + residual; the residual is optional.
  Tensor operator()(const Tensor& x, const Tensor& residual = {});

  Linear qkv;  ///< (3 width, width)
  Linear proj;

 private:
  BlockOptions options_;
};

/// Two linear layers with an activation between: one fused operation.
class Mlp : public Module {
 public:
  explicit Mlp(const BlockOptions& options, Device device = {});
  /// mlp(x) + residual; the residual is optional.
  Tensor operator()(const Tensor& x, const Tensor& residual = {});

  Linear fc1, fc2;

 private:
  Activation activation_;
};

/// x + attention(norm(x)), then x + mlp(norm(x)). Names are timm's: norm1, attn.qkv, attn.proj, norm2,
/// mlp.fc1, mlp.fc2.
class TransformerBlock : public Layer {
 public:
  explicit TransformerBlock(const BlockOptions& options, Device device = {});
  Tensor forward(const Tensor& x) override;

  LayerNorm norm1;
  MultiHeadAttention attn;
  LayerNorm norm2;
  Mlp mlp;

 private:
  Dropout dropout_;
  DropPath drop_path_;
  bool fused_residual_;  // without dropout on the branch, the sum joins the last matrix product
};

}  // namespace reprise::nn
