// Strategies and plans of models.
#include "reprise/nn/recompute_setting.h"

#include "reprise/autograd/grad_mode.h"

namespace reprise::nn {
namespace {
using Kind = RecomputeStrategy::Kind;
}  // namespace

// What the strategy's kind does not read would be ignored.
void RecomputeSetting::check_heeded(const RecomputeStrategy& s) const {
  auto heeds = [&](bool does, const auto&... option) {
    check(does, owner_, ": recompute '", to_string(s), "' does not heed ", option...);
  };
  heeds(s.count == 0 || s.kind == Kind::every || s.kind == Kind::keep || s.kind == Kind::segments, "count ",
        s.count);
  heeds(s.layers.empty() || s.kind == Kind::layers, "layers, of which it has ", s.layers.size());
  heeds(s.plan.empty() || s.kind == Kind::plan, "plan '", recompute::to_string(s.plan), "'");
  heeds(s.policy.empty() || s.kind == Kind::selective || s.kind == Kind::offload, "policy '", s.policy, "'");
  heeds(s.memory_budget == 0 || s.kind == Kind::automatic, "memory_budget ", s.memory_budget);
  heeds(!s.memory_percent || s.kind == Kind::automatic, "memory_percent ", s.memory_percent.value_or(0));
}

recompute::Plan RecomputeSetting::recompute_plan() const {
  return plan_.empty() ? recompute::plan_none(size()) : plan_;
}

void RecomputeSetting::set_recompute(const RecomputeStrategy& strategy) {
  RecomputeStrategy chosen = strategy;  // it may be this setting's, which the call below forgets
  const bool is_automatic = chosen.kind == Kind::automatic;
  check(!is_automatic || chosen.memory_budget > 0 || chosen.memory_percent, owner_,
        ": recompute 'auto' needs a memory budget");
  check_heeded(chosen);
  set_recompute(is_automatic ? recompute::plan_none(size()) : recompute::plan_of(chosen, size()),
                recompute::options_of(chosen));
  strategy_ = chosen;
}

void RecomputeSetting::set_recompute(recompute::Plan plan, const CheckpointOptions& options) {
  replace_plan(std::move(plan));
  checkpoint_options_ = options;
  strategy_ = {};
  planned_numel_ = 0;
}

void RecomputeSetting::replace_plan(recompute::Plan plan) {
  recompute::check_plan(plan, size());
  plan_ = plan == recompute::plan_none(size()) ? recompute::Plan() : std::move(plan);
}

recompute::Planned RecomputeSetting::plan(const Tensor& input, size_t budget_bytes,
                                          const recompute::ProfileOptions& options) {
  return plan(input, RecomputeStrategy{.kind = Kind::automatic, .memory_budget = budget_bytes}, options);
}

recompute::Planned RecomputeSetting::plan(const Tensor& input, const RecomputeStrategy& strategy,
                                          const recompute::ProfileOptions& options) {
  check(strategy.kind == Kind::automatic, owner_, ": recompute '", to_string(strategy), "' is not planned");
  const RecomputeStrategy chosen = strategy;  // it may be this setting's, which the call below forgets
  const recompute::Chain chain = profile(input, options);
  recompute::Planned planned = recompute::plan_rotor(chain, recompute::budget_of(chosen, chain));
  set_recompute(planned.plan);
  strategy_ = chosen;
  planned_numel_ = input.numel();
  return planned;
}

// An optimizer without state yet is taken to make Adam's; gradients may be there from an earlier micro-batch.
void RecomputeSetting::plan_if_automatic(const Tensor& input, const Module& model) {
  if (strategy_.kind != Kind::automatic || !autograd::grad_mode_enabled() || input.numel() <= planned_numel_)
    return;
  MemoryStats stats = allocator(input.device()).stats();
  bool has_state = stats.by_category[size_t(MemoryCategory::optimizer)] > 0;
  TensorList later;  // stands for that state meanwhile
  for (const Tensor& parameter : model.parameters())
    for (int i = 0; i < 2 && !has_state; ++i)
      later.push_back(Tensor::empty(parameter.shape(), DType::f32, parameter.device()));
  plan(input, strategy_, {.gradients = recompute::GradientMemory::held});
}

}  // namespace reprise::nn
