// Llama: decoders with rotary positions, RMSNorm, grouped-query attention and SwiGLU (Touvron et al. 2023; Ainslie et al. 2023),
// as Llama 2 and 3, Mistral, TinyLlama, SmolLM, Qwen 2 and Qwen 3 are.
#pragma once

#include <memory>
#include <optional>

#include "reprise/nn/block_stack.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/transformers/kv_cache.h"

namespace reprise::nn {

/// Numbers of config.json, by Hugging Face's names behind them.
struct LlamaOptions {
  int64_t vocab_size = 32000;  ///< vocab_size: indices of tokens are below it
  int64_t context = 2048;      ///< the longest sequence: max_position_embeddings
  int64_t layers = 12;         ///< num_hidden_layers
  int64_t heads = 12;          ///< num_attention_heads
  /// num_key_value_heads: of keys and values, each for heads / kv_heads of queries; 0: heads.
  int64_t kv_heads = 0;
  int64_t width = 768;         ///< hidden_size
  int64_t hidden = 0;          ///< intermediate_size, of SwiGLU; 0: 8/3 width, up to the next multiple of 64
  int64_t head_dim = 0;        ///< head_dim: channels of a head, an even number; 0: width / heads
  double norm_eps = 1e-5;      ///< rms_norm_eps
  double rope_theta = 10000;   ///< the slowest turn is theta^-1 per token (nearly)
  RopeScaling rope_scaling{};  ///< of turns, for a long context
  bool tied = false;           ///< tie_word_embeddings: the head is the token table
  bool qkv_bias = false;       ///< attention_bias of Qwen 2: on queries, keys and values
  bool qk_norm = false;  ///< of Qwen 3: RMSNorm over each head of queries and of keys, before they are turned
  /// sliding_window: a token sees itself and the window - 1 before it, in all layers; 0: all before it. Costs what a window of
  /// `masked_attention` does.
  int64_t window = 0;
  RecomputeStrategy recompute{};  ///< of the layers at first; later `model.layers.set_recompute`
};

/// Channels of a head: `head_dim`, or width / heads.
int64_t head_dim_of(const LlamaOptions& options);

/// x + attention(norm(x)), then x + down(silu(gate(norm(x))) up(norm(x))). Names are Hugging Face's.
class LlamaBlock : public Layer {
 public:
  /// Normal weights of deviation 0.02. `tables`: of the head's channels. The options are not checked here but by
  /// Llama.
  LlamaBlock(const LlamaOptions& options, std::shared_ptr<RotaryTables> tables, Device device = {});
  Tensor forward(const Tensor& x) override;  ///< (B, T, width), from position 0 on
  /// The same of tokens x that follow those in a cache; the place has their angles.
  Tensor step(const Tensor& x, const KvPlace& place) const;

  RmsNorm input_layernorm;           ///< before the attention
  Linear q_proj;                     ///< to the queries, (heads head_dim, width)
  Linear k_proj;                     ///< to the keys, (kv_heads head_dim, width)
  Linear v_proj;                     ///< to the values, as large
  std::optional<RmsNorm> q_norm;     ///< of each head of queries, (head_dim); none without qk_norm
  std::optional<RmsNorm> k_norm;     ///< of each head of keys, (head_dim)
  Linear o_proj;                     ///< of the heads' results, (width, heads head_dim), without bias
  RmsNorm post_attention_layernorm;  ///< before SwiGLU
  Linear gate_proj;                  ///< (hidden, width), without bias: what goes through silu
  Linear up_proj;                    ///< (hidden, width), without bias: what that is multiplied by
  Linear down_proj;                  ///< back, (width, hidden), without bias

 private:
  /// `attend(q, k, v)`: of heads that are turned already.
  template <class Attend>
  Tensor joined(const Tensor& x, const RotaryAngles& angles, Attend&& attend) const;

  std::shared_ptr<RotaryTables> tables_;
  int64_t heads_, kv_heads_, window_;
};

/// A decoder: tokens i64 (B, T) -> logits (B, T, vocab_size), at each position those of the token after it.
/// `load_published` takes the weights of a published one.
///
///   rp::nn::Llama model({.vocab_size = 256, .layers = 4, .heads = 4, .kv_heads = 2, .width = 128});
class Llama : public Layer {
 public:
  /// Normal weights of deviation 0.02, as transformers. Error unless a head has an even number of channels, heads
  /// divide the width where head_dim does not say how many, and kv_heads divide the heads.
  explicit Llama(const LlamaOptions& options, Device device = {});

  Tensor forward(const Tensor& tokens) override;  ///< i64 (B, T), T <= context -> logits (B, T, vocab_size)
  /// Behind the final norm, (B, T, width). Error where the model has hooks or was replaced, which this would pass over.
  Tensor features(const Tensor& tokens) const;
  Tensor next_logits(const Tensor& tokens) const;  ///< of the last position alone, (B, vocab_size)
  /// The same of tokens (B, T) that follow those in the cache's sequences [first_row, first_row + B), which keeps them: in eval
  /// mode, under NoGrad. Error where a sequence outgrows the context, and where model, `layers` or a block has hooks or was replaced.
  Tensor next_logits(const Tensor& tokens, KvCache& cache, int64_t first_row = 0) const;

  /// Under the names of Hugging Face's LlamaForCausalLM: "model.layers.0.self_attn.q_proj.weight", "lm_head.weight" unless tied.
  NamedTensors state_dict() const override;
  /// What it was made with.
  const LlamaOptions& options() const { return options_; }

  Embedding embed_tokens;         ///< (vocab_size, width); the head's weight too where it is tied
  BlockStack layers;              ///< of LlamaBlocks; called with tokens, it embeds them first
  RmsNorm norm;                   ///< before the head
  std::optional<Linear> lm_head;  ///< (vocab_size, width), without bias; none where the head is tied

 private:
  Tensor stream(const Tensor& tokens) const;
  Tensor logits(const Tensor& x) const;
  Tensor loss_after(const Tensor& x, const Tensor& tokens) const;

  LlamaOptions options_;
  std::shared_ptr<RotaryTables> tables_;
};

/// Copies in what a published checkpoint holds, converted to the dtype of the model: `rp::io::read_weights(folder).tensors`, in
/// one file or several. The tables of turns that older ones hold are left out, and so is the head of a tied model. Error, and no
/// change, as of `load_state_dict`.
void load_published(Llama& model, const NamedTensors& tensors);

}  // namespace reprise::nn
