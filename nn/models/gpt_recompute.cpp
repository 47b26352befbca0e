// How a Gpt's blocks are recomputed: by a strategy, a plan, or the planner's plan for a memory budget.
#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::nn {
namespace {
constexpr auto automatic = RecomputeStrategy::Kind::automatic;
}  // namespace

void Gpt::set_recompute(const RecomputeStrategy& strategy) {
  RecomputeStrategy chosen = strategy;  // it may be this model's, which the call below forgets
  bool is_automatic = chosen.kind == automatic;
  check(!is_automatic || chosen.memory_budget > 0, "Gpt: recompute 'auto' needs a memory budget");
  set_recompute(
      is_automatic ? recompute::plan_none(options_.layers) : recompute::plan_of(chosen, options_.layers),
      recompute::options_of(chosen));
  options_.recompute = chosen;
}

void Gpt::set_recompute(recompute::Plan plan, const CheckpointOptions& options) {
  recompute::check_plan(plan, options_.layers);
  plan_ = std::move(plan);
  checkpoint_options_ = options;
  options_.recompute = {};
  planned_tokens_ = 0;
}

// All blocks are alike: one is measured.
recompute::Chain Gpt::profile_step(const Tensor& tokens, const recompute::ProfileOptions& options) {
  std::vector<recompute::LayerFunction> first{blocks_.front()};
  recompute::TrainingStep step{.before = [&] { return embed(tokens); },
                               .layers = first,
                               .after =
                                   [&](const Tensor& x) {
                                     Tensor targets =
                                         Tensor::zeros(tokens.shape(), DType::i64, tokens.device());
                                     return cross_entropy(linear(ln_f(x), wte.weight), targets);
                                   }};
  recompute::Chain chain = recompute::profile_step(step, options);
  chain.stages.assign(size_t(options_.layers), recompute::Stage(chain.stages.front()));
  return chain;
}

recompute::Planned Gpt::plan_recompute(const Tensor& tokens, size_t budget_bytes,
                                       const recompute::ProfileOptions& options) {
  recompute::Chain chain = profile_step(tokens, options);
  recompute::Planned planned = recompute::plan_rotor(chain, int64_t(budget_bytes));
  set_recompute(planned.plan);
  options_.recompute = {.kind = automatic, .memory_budget = budget_bytes};
  planned_tokens_ = tokens.numel();
  return planned;
}

// In the first training step, and again if one has more tokens. Who has no optimizer state yet is taken to
// get Adam's; gradients may have been kept from an earlier micro-batch.
void Gpt::plan_automatically(const Tensor& tokens) {
  if (!autograd::grad_mode_enabled() || tokens.numel() <= planned_tokens_) return;
  MemoryStats stats = allocator(tokens.device()).stats();
  bool has_state = stats.by_category[size_t(MemoryCategory::optimizer)] > 0;
  TensorList later;  // stands for it meanwhile
  for (const Tensor& parameter : parameters())
    for (int i = 0; i < 2 && !has_state; ++i)
      later.push_back(Tensor::empty(parameter.shape(), DType::f32, parameter.device()));
  plan_recompute(tokens, options_.recompute.memory_budget, {.gradients = recompute::GradientMemory::held});
}

}  // namespace reprise::nn
