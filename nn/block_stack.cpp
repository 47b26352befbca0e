// How the blocks run, and what the planner measures of them.
#include "reprise/nn/block_stack.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/grad_mode.h"

namespace reprise::nn {
namespace {
constexpr auto automatic = RecomputeStrategy::Kind::automatic;

// What the strategy's kind does not read would be ignored.
void check_heeded(const RecomputeStrategy& s) {
  using Kind = RecomputeStrategy::Kind;
  auto heeds = [&](bool does, const auto&... option) {
    check(does, "BlockStack: recompute '", to_string(s), "' does not heed ", option...);
  };
  heeds(s.count == 0 || s.kind == Kind::every || s.kind == Kind::segments, "count ", s.count);
  heeds(s.layers.empty() || s.kind == Kind::layers, "layers, of which it has ", s.layers.size());
  heeds(s.policy.empty() || s.kind == Kind::selective || s.kind == Kind::offload, "policy '", s.policy, "'");
  heeds(s.memory_budget == 0 || s.kind == automatic, "memory_budget ", s.memory_budget);
}
}  // namespace

std::vector<recompute::LayerFunction> BlockStack::functions() const {
  std::vector<recompute::LayerFunction> functions;
  for (int64_t i = 0; i < size(); ++i)
    functions.emplace_back(
        [block = share(i), name = options_.name + "." + std::to_string(i)](const Tensor& x) {
          OpScope scope(name);
          return block->forward(x);
        });
  return functions;
}

Tensor BlockStack::forward(const Tensor& input) {
  if (training() && strategy_.kind == automatic) plan_automatically(input);
  Tensor x = options_.before ? options_.before(input) : input;
  if (!training()) return recompute::run_layers(functions(), x);
  return recompute::run_plan(recompute_plan(), functions(), x, checkpoint_options_);
}

recompute::Plan BlockStack::recompute_plan() const {
  return plan_.empty() ? recompute::plan_none(size()) : plan_;
}

void BlockStack::set_recompute(const RecomputeStrategy& strategy) {
  RecomputeStrategy chosen = strategy;  // it may be this stack's, which the call below forgets
  bool is_automatic = chosen.kind == automatic;
  check(!is_automatic || chosen.memory_budget > 0, "BlockStack: recompute 'auto' needs a memory budget");
  check_heeded(chosen);
  set_recompute(is_automatic ? recompute::plan_none(size()) : recompute::plan_of(chosen, size()),
                recompute::options_of(chosen));
  strategy_ = chosen;
}

void BlockStack::set_recompute(recompute::Plan plan, const CheckpointOptions& options) {
  recompute::check_plan(plan, size());
  plan_ = plan == recompute::plan_none(size()) ? recompute::Plan() : std::move(plan);
  checkpoint_options_ = options;
  strategy_ = {};
  planned_numel_ = 0;
}

recompute::Chain BlockStack::profile(const Tensor& input, const recompute::ProfileOptions& options) {
  std::vector<recompute::LayerFunction> measured = functions();
  if (options_.alike) measured.resize(std::min<size_t>(1, measured.size()));
  recompute::Chain chain = recompute::profile_step(
      {.before = [&] { return options_.before ? options_.before(input) : input; },
       .layers = measured,
       .after = [&](const Tensor& x) { return options_.after ? options_.after(x, input) : sum(x); }},
      options);
  if (options_.alike) chain.stages.assign(size_t(size()), recompute::Stage(chain.stages.front()));
  return chain;
}

recompute::Planned BlockStack::plan(const Tensor& input, size_t budget_bytes,
                                    const recompute::ProfileOptions& options) {
  recompute::Planned planned = recompute::plan_rotor(profile(input, options), int64_t(budget_bytes));
  set_recompute(planned.plan);
  strategy_ = {.kind = automatic, .memory_budget = budget_bytes};
  planned_numel_ = input.numel();
  return planned;
}

// An optimizer without state yet is taken to make Adam's; gradients may be there from an earlier micro-batch.
void BlockStack::plan_automatically(const Tensor& input) {
  if (!autograd::grad_mode_enabled() || input.numel() <= planned_numel_) return;
  MemoryStats stats = allocator(input.device()).stats();
  bool has_state = stats.by_category[size_t(MemoryCategory::optimizer)] > 0;
  const Module& model = options_.model ? *options_.model : *this;
  TensorList later;  // stands for that state meanwhile
  for (const Tensor& parameter : model.parameters())
    for (int i = 0; i < 2 && !has_state; ++i)
      later.push_back(Tensor::empty(parameter.shape(), DType::f32, parameter.device()));
  plan(input, strategy_.memory_budget, {.gradients = recompute::GradientMemory::held});
}

}  // namespace reprise::nn
