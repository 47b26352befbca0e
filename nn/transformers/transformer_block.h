// The transformer block (Vaswani et al. 2017; pre-norm as in GPT-2, Radford et al. 2019).
#pragma once

#include <optional>

#include "reprise/nn/transformers/mlp.h"
#include "reprise/nn/transformers/multi_head_attention.h"

namespace reprise::nn {

/// What a TransformerBlock is made with. The defaults are GPT-2's, but for dropout and initial values.
struct BlockOptions {
  int64_t kv_heads = 0;             ///< of keys and values, each for heads / kv_heads of queries; 0: heads
  int64_t head_dim = 0;             ///< channels of a head; 0: width / heads
  int64_t hidden = 0;               ///< of the MLP; 0: default_hidden
  bool gated = false;               ///< the MLP's activation is a gate's: with Activation::silu SwiGLU
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
  std::shared_ptr<Rope> rope{};     ///< rotary positions on a grid, which blocks may share
  std::shared_ptr<RotaryTables> rotary{};  ///< rotary positions in the sequence, which blocks may share
  double init_stddev = 0;                  ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;  ///< of the two that write to the residual stream; 0: as init_stddev
  Activation activation = Activation::gelu_tanh;  ///< of the MLP
};

/// x + attention(norm(x)), then x + mlp(norm(x)); with LayerScale x + gamma attention(norm(x)) and so on. Names
/// are timm's: norm1, attn.qkv, attn.proj, ls1.gamma, norm2, mlp.fc1, mlp.fc2, ls2.gamma.
///
///   auto rotary = std::make_shared<rp::nn::RotaryTables>(1024, 16);  // a block as Llama's: width 128, 8 heads, 2 of keys and values
///   rp::nn::TransformerBlock block(128, 8, {.kv_heads = 2, .gated = true, .bias = false, .norm = rp::nn::NormKind::rms,
///                                           .rotary = rotary, .activation = rp::Activation::silu});
class TransformerBlock : public Layer {
 public:
  /// For tokens (B, T, width). Error as of MultiHeadAttention, and unless drop_path is in [0, 1), and hidden, layer_scale and both
  /// stddevs are at least 0.
  TransformerBlock(int64_t width, int64_t heads, const BlockOptions& options = {}, Device device = {});
  using Layer::operator();
  /// block(x) under a mask, as MultiHeadAttention takes one. In a checkpoint give the mask as an input:
  /// `rp::checkpoint([&](const rp::TensorList& in) { return rp::TensorList{block(in[0], in[1])}; }, {x, mask})`.
  Tensor operator()(const Tensor& x, const Tensor& mask) const;
  Tensor forward(const Tensor& x) override { return forward(x, {}); }
  /// Beside x: the mask.
  Tensor forward_with(const Tensor& x, const TensorList& beside) override;
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
