// Gpt: the GPT-2 model (Radford et al. 2019): learned positions, pre-norm blocks, a head tied to the token
// table.
#pragma once

#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/autograd/recompute/planner/profile.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/nn/transformer.h"

namespace reprise::nn {

struct GptOptions {
  int64_t vocab_size = 50257;
  int64_t context = 1024;  ///< the longest sequence
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  double dropout = 0;
  bool bias = true;  ///< in linear layers and layer norms
  Activation activation = Activation::gelu_tanh;
  RecomputeStrategy recompute{};  ///< of the blocks, in training mode
};

class Gpt : public Module {
 public:
  /// GPT-2 initialisation: normal 0.02, the layers that write to the residual stream 0.02 / sqrt(2 layers),
  /// biases 0.
  explicit Gpt(const GptOptions& options, Device device = {});

  /// tokens i64 (B, T), T <= context -> logits (B, T, vocab_size).
  Tensor operator()(const Tensor& tokens);

  /// The last hidden state after the final norm, (B, T, width).
  Tensor features(const Tensor& tokens);
  /// Logits of the last position only, (B, vocab_size): what sampling needs.
  Tensor next_logits(const Tensor& tokens);

  /// From now on the blocks are played so in training mode; no bit depends on it. Evaluation and NoGrad have
  /// no regions. Error if the strategy needs more blocks, or the plan is not for as many.
  void set_recompute(const RecomputeStrategy& strategy);
  void set_recompute(recompute::Plan plan, const CheckpointOptions& options = {});
  const recompute::Plan& recompute_plan() const { return plan_; }

  /// What a training step on `tokens` costs: the blocks as a chain, measured on the device. The step ends
  /// with the cross entropy of all logits. Changes nothing (see profile.h).
  recompute::Chain profile_step(const Tensor& tokens, const recompute::ProfileOptions& options = {});
  /// Measures such a step and plays the blocks from now on by the fastest plan with which the allocator holds
  /// at most `budget_bytes` at its peak: weights, gradients, optimizer state, data and all. What is there
  /// before the step is counted as it is, so let the optimizer make its state first. Error stating the
  /// minimum if there is no such plan.
  recompute::Planned plan_recompute(const Tensor& tokens, size_t budget_bytes,
                                    const recompute::ProfileOptions& options = {});

  const GptOptions& options() const { return options_; }

  /// Floating-point operations of one training step for one token: 6 parameters + attention (Chowdhery et al.
  /// 2022, appendix B).
  double flops_per_token() const;

  Embedding wte, wpe;
  Dropout drop;
  std::vector<std::shared_ptr<TransformerBlock>> h;  ///< graphs that play them again hold them too
  LayerNorm ln_f;

 private:
  Tensor embed(const Tensor& tokens);
  void plan_automatically(const Tensor& tokens);

  GptOptions options_;
  std::vector<recompute::LayerFunction> blocks_;  // `h`, each under its name for messages
  recompute::Plan plan_;
  CheckpointOptions checkpoint_options_;
  int64_t planned_tokens_ = 0;  // how many a step has that the automatic plan is for
};

}  // namespace reprise::nn
