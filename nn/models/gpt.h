// Gpt: the GPT-2 model (Radford et al. 2019): learned positions, pre-norm blocks, a head tied to the token
// table.
#pragma once

#include "reprise/nn/block_stack.h"
#include "reprise/nn/transformer.h"

namespace reprise::nn {

/// Sizes of a Gpt; by default those of the smallest GPT-2, of 124 million parameters.
struct GptOptions {
  int64_t vocab_size = 50257;  ///< tokens there are: indices are below it
  int64_t context = 1024;      ///< the longest sequence
  int64_t layers = 12;         ///< blocks in `h`, at least 1
  int64_t heads = 12;          ///< of each block's attention; they divide the width
  int64_t width = 768;         ///< of a token's vector; the MLP of a block has four times as many in between
  /// Of the embedded tokens, after each half of a block, of the attention's probabilities.
  double dropout = 0;
  bool bias = true;                               ///< in linear layers and layer norms
  Activation activation = Activation::gelu_tanh;  ///< of the MLPs; gelu_tanh is GPT-2's
  RecomputeStrategy recompute{};                  ///< of the blocks at first; later `model.h.set_recompute`
};

/// A decoder: tokens i64 (B, T) -> logits (B, T, vocab_size), at each position those of the token after it.
///
///   rp::nn::Gpt model({.vocab_size = 256, .context = 128, .layers = 4, .heads = 4, .width = 128});
class Gpt : public Layer {
 public:
  /// GPT-2 initialisation: normal 0.02, the layers that write to the residual stream 0.02 / sqrt(2 layers),
  /// biases 0.
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

  /// Under GPT-2's names, such as "h.0.attn.c_attn.weight" for h.0.attn.qkv.weight.
  NamedTensors state_dict() const override;

  /// What it was made with.
  const GptOptions& options() const { return options_; }

  /// Floating-point operations of one training step for one token: 6 parameters + attention (Chowdhery et al.
  /// 2022, appendix B).
  double flops_per_token() const;

  Embedding wte;   ///< of tokens, (vocab_size, width); the head's weight too
  Embedding wpe;   ///< of positions, (context, width)
  Dropout drop;    ///< of the embedded tokens
  BlockStack h;    ///< of TransformerBlocks; called with tokens, it embeds them first
  LayerNorm ln_f;  ///< before the head

 private:
  Tensor embed(const Tensor& tokens) const;
  Tensor stream(const Tensor& tokens) const;  // behind the last block
  Tensor logits(const Tensor& x) const;       // of what is there
  Tensor loss_after(const Tensor& x, const Tensor& tokens) const;

  GptOptions options_;
};

}  // namespace reprise::nn
