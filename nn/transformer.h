// The transformer block and its two halves (Vaswani et al. 2017; pre-norm as in GPT-2, Radford et al. 2019).
#pragma once

#include <optional>

#include "reprise/autograd/ops/attention/masked_attention.h"
#include "reprise/nn/kv_cache.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/rope.h"

namespace reprise::nn {

/// What a MultiHeadAttention is made with. The defaults are GPT-2's, but for dropout and initial values.
struct MultiHeadAttentionOptions {
  bool causal = true;      ///< each token sees itself and those before it; if not, all
  int64_t window = 0;      ///< a token sees those fewer than this many places away: masked_attention; 0: all
  bool bias = true;        ///< of the linear layers, and of the LayerNorms of qk_norm
  bool qkv_bias = true;    ///< of the packed projection, where there is bias at all
  double dropout = 0;      ///< of the attention probabilities
  double init_stddev = 0;  ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;           ///< of the one that writes to the residual stream; 0: as init_stddev
  std::optional<NormKind> qk_norm{};  ///< norms the channels of each head of q and k (Dehghani et al. 2023)
  double norm_eps = 1e-5;             ///< of qk_norm
  std::shared_ptr<Rope> rope{};       ///< turns q and k, behind qk_norm
};

/// Multi-head self-attention: (B, T, width) -> (B, T, width), one packed projection for q, k and v. Error
/// unless width is a multiple of heads. Names are timm's: qkv, q_norm, k_norm, proj.
class MultiHeadAttention : public Layer {
 public:
  /// `heads` heads of width / heads channels each. Error unless dropout is in [0, 1), or if a stddev is negative.
  MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Device device = {});
  using Layer::operator();
  Tensor forward(const Tensor& x) override { return attend(x, {}, {}); }
  /// attention(x), hooks included, and what `end` says of its last product: a residual, scales.
  Tensor operator()(const Tensor& x, const LinearEpilogue& end) const;
  /// The same under a mask as of `masked_attention`: (T, T), or what broadcasts to (B, heads, T, T), such as (B, 1, 1, T) for
  /// padding; true where the token of the row sees that of the column, or numbers that are added to scores. `causal` and
  /// `window` hold besides. A window without a mask keeps no matrix; beside a mask it makes one of T x T, or of the mask's size, in
  /// each pass. An undefined mask is none. Error under a mask with hooks or replaced: these take x alone.
  Tensor operator()(const Tensor& x, const Tensor& mask, const LinearEpilogue& end = {}) const;

  /// The same of tokens x that follow those in a cache, which keeps them; without dropout. Error if not causal, or with
  /// rotary positions, which are those of a whole grid, or with hooks.
  Tensor step(const Tensor& x, const LinearEpilogue& end, const KvPlace& place) const;

  /// q, k and v of x as attention takes them, (B, heads, T, width / heads) each.
  TensorList queries_keys_values(const Tensor& x) const;

  Linear qkv;                  ///< weight (3 width, width): q, then k, then v, each head by head
  std::optional<Norm> q_norm;  ///< over the width / heads channels of each head of q; none without qk_norm
  std::optional<Norm> k_norm;  ///< the same of k
  Linear proj;                 ///< weight (width, width), from the joined heads to the residual stream

 private:
  Tensor attend(const Tensor& x, const Tensor& mask, const LinearEpilogue& end) const;

  std::shared_ptr<Rope> rope_;
  int64_t heads_;
  MaskedAttentionOptions attention_;
};

/// What an Mlp is made with.
struct MlpOptions {
  Activation activation = Activation::gelu_tanh;  ///< between the two layers
  bool bias = true;                               ///< of both layers
  double init_stddev = 0;                         ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;  ///< of the one that writes to the residual stream; 0: as init_stddev
};

/// Two linear layers with an activation between, one fused operation: (..., width) -> (..., width).
class Mlp : public Layer {
 public:
  /// From width to `hidden` and back. Error if a size is not positive, or a stddev negative.
  Mlp(int64_t width, int64_t hidden, const MlpOptions& options = {}, Device device = {});
  using Layer::operator();
  Tensor forward(const Tensor& x) override { return fused(x, {}); }
  /// mlp(x), hooks included, and what `end` says of its last product: a residual, scales.
  Tensor operator()(const Tensor& x, const LinearEpilogue& end) const;

  Linear fc1;  ///< weight (hidden, width)
  Linear fc2;  ///< weight (width, hidden)

 private:
  Tensor fused(const Tensor& x, const LinearEpilogue& end) const;

  Activation activation_;
};

/// What a TransformerBlock is made with. The defaults are GPT-2's, but for dropout and initial values.
struct BlockOptions {
  int64_t hidden = 0;               ///< of the MLP; 0: 4 * width
  bool causal = true;               ///< each token sees itself and those before it; if not, all
  int64_t window = 0;               ///< a token sees those fewer than this many places away; 0: all
  bool bias = true;                 ///< of the linear layers and LayerNorms
  bool qkv_bias = true;             ///< of the projection to q, k and v, where there is bias at all
  double dropout = 0;               ///< after each half, and of the attention probabilities
  double drop_path = 0;             ///< stochastic depth of each half
  double layer_scale = 0;           ///< what LayerScale of each half starts with; 0: there is none
  NormKind norm = NormKind::layer;  ///< of both halves
  double norm_eps = 1e-5;           ///< of the norms, those of qk_norm included
  bool qk_norm = false;             ///< norms each head of q and k, by the kind of `norm`
  std::shared_ptr<Rope> rope{};     ///< rotary positions, which blocks may share
  double init_stddev = 0;           ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;         ///< of the two that write to the residual stream; 0: as init_stddev
  Activation activation = Activation::gelu_tanh;  ///< of the MLP
};

/// x + attention(norm(x)), then x + mlp(norm(x)); with LayerScale x + gamma attention(norm(x)) and so on. Names
/// are timm's: norm1, attn.qkv, attn.proj, ls1.gamma, norm2, mlp.fc1, mlp.fc2, ls2.gamma.
class TransformerBlock : public Layer {
 public:
  /// For tokens (B, T, width). Error unless width is a multiple of heads, dropout and drop_path are in [0, 1), and
  /// hidden, layer_scale and both stddevs are at least 0.
  TransformerBlock(int64_t width, int64_t heads, const BlockOptions& options = {}, Device device = {});
  using Layer::operator();
  /// block(x) under a mask, as MultiHeadAttention takes one. In a checkpoint give the mask as an input:
  /// `rp::checkpoint([&](const rp::TensorList& in) { return rp::TensorList{block(in[0], in[1])}; }, {x, mask})`. Error of a block with
  /// hooks or replaced, which take x alone.
  Tensor operator()(const Tensor& x, const Tensor& mask) const;
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  /// The same without a look at hooks.
  Tensor forward(const Tensor& x, const Tensor& mask) const;
  /// The same of tokens x that follow those in a cache. Error in training mode, and of a block with hooks or replaced.
  Tensor step(const Tensor& x, const KvPlace& place) const;

  Norm norm1;                     ///< of what attention reads
  MultiHeadAttention attn;        ///< the first half
  std::optional<LayerScale> ls1;  ///< of attention's result; none where layer_scale is 0
  Norm norm2;                     ///< of what the MLP reads
  Mlp mlp;                        ///< the second half
  std::optional<LayerScale> ls2;  ///< of the MLP's result; none where layer_scale is 0

 private:
  /// Where no branch drops elements: its last product, its scales and the sum are one operation.
  template <class Attend>
  Tensor joined(const Tensor& x, Attend&& attend) const;

  Dropout dropout_;
  DropPath drop_path_;
  bool drops_;  // elements of a branch, in training
};

}  // namespace reprise::nn
