// Gpt: the GPT-2 model (Radford et al. 2019): learned positions, pre-norm blocks, a head tied to the token
// table; or, by options, with what decoders have had since.
#pragma once

#include "reprise/nn/block_stack.h"
#include "reprise/nn/transformers/transformer_block.h"

namespace reprise::nn {

/// Sizes of a Gpt; by default those of the smallest GPT-2, of 124 million parameters, and its layers.
struct GptOptions {
  int64_t vocab_size = 50257;  ///< tokens there are: indices are below it
  int64_t context = 1024;      ///< the longest sequence
  int64_t layers = 12;         ///< blocks in `h`, at least 1
  int64_t heads = 12;          ///< of each block's attention; they divide the width where head_dim is 0
  int64_t kv_heads = 0;        ///< of keys and values, each for heads / kv_heads of queries; 0: heads
  int64_t head_dim = 0;        ///< channels of a head; 0: width / heads
  int64_t width = 768;         ///< of a token's vector
  int64_t hidden = 0;          ///< inside the MLP of a block; 0: default_hidden
  bool gated = false;          ///< the MLPs' activation is a gate's: with Activation::silu SwiGLU
  /// The dropout of the embedded tokens, after each half of a block, and of the attention's probabilities.
  double dropout = 0;
  bool bias = true;                 ///< in linear layers and layer norms
  NormKind norm = NormKind::layer;  ///< of the blocks' halves, and before the head
  double norm_eps = 1e-5;           ///< of all norms
  bool qk_norm = false;             ///< norms each head of q and k, by the kind of `norm`
  int64_t window = 0;               ///< a token sees itself and the window - 1 before it; 0: all before it
  bool rotary = false;              ///< rotary positions in each block, in the place of the table `wpe`
  double rope_theta = 10000;        ///< of rotary positions: RotaryTables
  RopeScaling rope_scaling{};       ///< of rotary positions, for a long context
  bool tied = true;                 ///< the head is the token table
  Activation activation = Activation::gelu_tanh;  ///< of the MLPs; gelu_tanh is GPT-2's
  RecomputeStrategy recompute{};                  ///< of the blocks at first; later `model.h.set_recompute`
};

/// A decoder: tokens i64 (B, T) -> logits (B, T, vocab_size), at each position those of the token after it.
///
///   rp::nn::Gpt model({.vocab_size = 256, .context = 128, .layers = 4, .heads = 4, .width = 128});
///
/// With `.kv_heads = 2, .gated = true, .bias = false, .norm = rp::nn::NormKind::rms, .rotary = true, .tied = false, .activation =
/// rp::Activation::silu` the function is a Llama's; rp::nn::Llama has the names of published ones besides.
class Gpt : public Layer {
 public:
  /// GPT-2 initialisation: normal 0.02, the layers that write to the residual stream 0.02 / sqrt(2 layers),
  /// biases 0. Error as of TransformerBlock and, of rotary positions, of `check_rotary`.
  explicit Gpt(const GptOptions& options, Device device = {});

  /// tokens i64 (B, T), T <= context -> logits (B, T, vocab_size).
  Tensor forward(const Tensor& tokens) override;

  /// The last hidden state after the final norm, (B, T, width). Error where the model has hooks or was replaced, which this would
  /// pass over.
  Tensor features(const Tensor& tokens) const;
  /// Logits of the last position only, (B, vocab_size): what sampling needs.
  Tensor next_logits(const Tensor& tokens) const;
  /// The same of tokens (B, T) that follow those in the cache's sequences [first_row, first_row + B), which keeps them: in
  /// eval mode, under NoGrad, and without the regions of recompute. Error where a sequence outgrows the context, and where model, `h`,
  /// a block or its attention has hooks or was replaced.
  Tensor next_logits(const Tensor& tokens, KvCache& cache, int64_t first_row = 0) const;

  /// Under GPT-2's names, such as "h.0.attn.c_attn.weight" for h.0.attn.qkv.weight; what GPT-2 has not keeps its own.
  NamedTensors state_dict() const override;

  /// What it was made with.
  const GptOptions& options() const { return options_; }

  /// Floating-point operations of one training step for one token: 6 parameters that are in products + attention (Chowdhery et al.
  /// 2022, appendix B), to no more tokens than a window shows.
  double flops_per_token() const;

  Embedding wte;                  ///< of tokens, (vocab_size, width); the head's weight too where it is tied
  std::optional<Embedding> wpe;   ///< of positions, (context, width); none where they are rotary
  Dropout drop;                   ///< of the embedded tokens
  BlockStack h;                   ///< of TransformerBlocks; called with tokens, it embeds them first
  Norm ln_f;                      ///< before the head
  std::optional<Linear> lm_head;  ///< (vocab_size, width), without bias; none where the head is tied

 private:
  Tensor embed(const Tensor& tokens) const;
  Tensor stream(const Tensor& tokens) const;  // behind the last block
  Tensor logits(const Tensor& x) const;       // of what is there
  Tensor loss_after(const Tensor& x, const Tensor& tokens) const;

  GptOptions options_;
  std::shared_ptr<RotaryTables> rotary_;
};

}  // namespace reprise::nn
