// Self-attention of a transformer block (Vaswani et al. 2017; with grouped queries Ainslie et al. 2023).
#pragma once

#include <optional>

#include "reprise/autograd/ops/attention/masked_attention.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/transformers/kv_cache.h"
#include "reprise/nn/transformers/rope.h"

namespace reprise::nn {

/// What a MultiHeadAttention is made with. The defaults are GPT-2's, but for dropout and initial values.
struct MultiHeadAttentionOptions {
  int64_t kv_heads = 0;    ///< of keys and values, each for heads / kv_heads of queries; 0: heads
  int64_t head_dim = 0;    ///< channels of a head; 0: width / heads
  bool causal = true;      ///< each token sees itself and those before it; if not, all
  int64_t window = 0;      ///< a token sees those fewer than this many places away: masked_attention; 0: all
  bool bias = true;        ///< of the linear layers, and of the LayerNorms of qk_norm
  bool qkv_bias = true;    ///< of the packed projection, where there is bias at all
  double dropout = 0;      ///< of the attention probabilities
  double init_stddev = 0;  ///< of the linear layers; 0: PyTorch's default
  double output_stddev = 0;           ///< of the one that writes to the residual stream; 0: as init_stddev
  std::optional<NormKind> qk_norm{};  ///< norms the channels of each head of q and k (Dehghani et al. 2023)
  double norm_eps = 1e-5;             ///< of qk_norm
  std::shared_ptr<Rope> rope{};       ///< turns q and k by places on a grid, behind qk_norm
  std::shared_ptr<RotaryTables> rotary{};  ///< turns them by places in the sequence; not beside `rope`
};

/// Multi-head self-attention: (B, T, width) -> (B, T, width), one packed projection for q, k and v. Names are timm's: qkv, q_norm,
/// k_norm, proj.
class MultiHeadAttention : public Layer, public Described {
 public:
  /// `heads` heads of head_dim channels each. Error unless heads divide the width where no head_dim is given, and kv_heads the heads;
  /// unless dropout is in [0, 1); of negative numbers; and where `rotary` is of another head_dim.
  MultiHeadAttention(int64_t width, int64_t heads, const MultiHeadAttentionOptions& options = {},
                     Device device = {});
  using Layer::operator();
  Tensor forward(const Tensor& x) override { return attend(x, {}, {}); }
  /// Beside x: the mask.
  Tensor forward_with(const Tensor& x, const TensorList& beside) override;
  /// attention(x), hooks included, and what `end` says of its last product: a residual, scales.
  Tensor operator()(const Tensor& x, const LinearEpilogue& end) const;
  /// The same under a mask as of `masked_attention`: (T, T), or what broadcasts to (B, heads, T, T), such as (B, 1, 1, T) for
  /// padding; true where the token of the row sees that of the column, or numbers that are added to scores. `causal` and
  /// `window` hold besides. A window without a mask keeps no matrix; beside a mask it makes one of T x T, or of the mask's size, in
  /// each pass. An undefined mask is none.
  Tensor operator()(const Tensor& x, const Tensor& mask, const LinearEpilogue& end = {}) const;

  /// The same of tokens x that follow those in a cache, which keeps them; without dropout. With `rotary` the place has to have their
  /// angles. Error without them, if not causal, with `rope`, which is of a whole grid, or with hooks.
  Tensor step(const Tensor& x, const LinearEpilogue& end, const KvPlace& place) const;

  /// q, k and v of x as attention takes them: (B, heads, T, head_dim), and k and v of kv_heads.
  TensorList queries_keys_values(const Tensor& x) const;
  std::string extra_repr() const override;

  Linear qkv;  ///< weight ((heads + 2 kv_heads) head_dim, width): q, then k, then v, each head by head
  std::optional<Norm> q_norm;  ///< over the channels of each head of q; none without qk_norm
  std::optional<Norm> k_norm;  ///< the same of k
  Linear proj;  ///< weight (width, heads head_dim), from the joined heads to the residual stream

 private:
  Tensor attend(const Tensor& x, const Tensor& mask, const LinearEpilogue& end) const;
  TensorList split(const Tensor& x, const RotaryAngles& angles) const;
  Tensor joined(const Tensor& heads, const LinearEpilogue& end) const;

  std::shared_ptr<Rope> rope_;
  std::shared_ptr<RotaryTables> rotary_;
  int64_t heads_, kv_heads_, head_dim_;
  MaskedAttentionOptions attention_;
};

}  // namespace reprise::nn
