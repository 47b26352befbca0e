// The transformer block and its two halves (Vaswani et al. 2017; pre-norm as in GPT-2, Radford et al. 2019).
#pragma once

#include <optional>

#include "reprise/nn/kv_cache.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/rope.h"

namespace reprise::nn {

struct MultiHeadAttentionOptions {
  bool causal = true;
  bool bias = true;
  bool qkv_bias = true;               ///< of the packed projection, where there is bias at all
  double dropout = 0;                 ///< of the attention probabilities
  double init_stddev = 0;             ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;           ///< of the one that writes to the residual stream; 0: as init_stddev
  std::optional<NormKind> qk_norm{};  ///< norms the channels of each head of q and k (Dehghani et al. 2023)
  double norm_eps = 1e-5;             ///< of qk_norm
  std::shared_ptr<Rope> rope{};       ///< turns q and k, behind qk_norm
};

/// Multi-head self-attention: (B, T, width) -> (B, T, width), one packed projection for q, k and v. Error
/// unless width is a multiple of heads. Names are timm's: qkv, q_norm, k_norm, proj.
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Device device = {});
  /// attention(x), and what `end` says of its last product: a residual, scales.
  Tensor operator()(const Tensor& x, const LinearEpilogue& end = {});

  /// The same of tokens x that follow those in a cache, which keeps them. Error with rotary positions, which are those of a
  /// whole grid.
  Tensor step(const Tensor& x, const LinearEpilogue& end, const KvPlace& place);

  /// q, k and v of x as attention takes them, (B, heads, T, width / heads) each.
  TensorList queries_keys_values(const Tensor& x);

  Linear qkv;  ///< (3 width, width)
  std::optional<Norm> q_norm, k_norm;
  Linear proj;

 private:
  std::shared_ptr<Rope> rope_;
  int64_t heads_;
  AttentionOptions attention_;
};

struct MlpOptions {
  Activation activation = Activation::gelu_tanh;
  bool bias = true;
  double init_stddev = 0;    ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;  ///< of the one that writes to the residual stream; 0: as init_stddev
};

/// Two linear layers with an activation between, one fused operation: (..., width) -> (..., width).
class Mlp : public Module {
 public:
  Mlp(int64_t width, int64_t hidden, const MlpOptions& options = {}, Device device = {});
  /// mlp(x), and what `end` says of its last product: a residual, scales.
  Tensor operator()(const Tensor& x, const LinearEpilogue& end = {});

  Linear fc1, fc2;

 private:
  Activation activation_;
};

struct BlockOptions {
  int64_t hidden = 0;  ///< of the MLP; 0: 4 * width
  bool causal = true;
  bool bias = true;
  bool qkv_bias = true;    ///< of the projection to q, k and v, where there is bias at all
  double dropout = 0;      ///< after each half, and of the attention probabilities
  double drop_path = 0;    ///< stochastic depth of each half
  double layer_scale = 0;  ///< what LayerScale of each half starts with; 0: there is none
  NormKind norm = NormKind::layer;
  double norm_eps = 1e-5;
  bool qk_norm = false;          ///< of the kind of `norm`
  std::shared_ptr<Rope> rope{};  ///< rotary positions, which blocks may share
  double init_stddev = 0;        ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;      ///< of the two that write to the residual stream; 0: as init_stddev
  Activation activation = Activation::gelu_tanh;
};

/// x + attention(norm(x)), then x + mlp(norm(x)); with LayerScale x + gamma attention(norm(x)) and so on. Names
/// are timm's: norm1, attn.qkv, attn.proj, ls1.gamma, norm2, mlp.fc1, mlp.fc2, ls2.gamma.
class TransformerBlock : public Layer {
 public:
  TransformerBlock(int64_t width, int64_t heads, const BlockOptions& options = {}, Device device = {});
  Tensor forward(const Tensor& x) override;
  /// The same of tokens x that follow those in a cache, in eval mode.
  Tensor step(const Tensor& x, const KvPlace& place);

  Norm norm1;
  MultiHeadAttention attn;
  std::optional<LayerScale> ls1;
  Norm norm2;
  Mlp mlp;
  std::optional<LayerScale> ls2;

 private:
  /// Where no branch drops elements: its last product, its scales and the sum are one operation.
  template <class Attend>
  Tensor joined(const Tensor& x, Attend&& attend);

  Dropout dropout_;
  DropPath drop_path_;
  bool drops_;  // elements of a branch, in training
};

}  // namespace reprise::nn
