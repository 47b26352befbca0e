// How the blocks run, and what the planner measures of them.
#include "reprise/nn/block_stack.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/grad_mode.h"

namespace reprise::nn {
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
  if (training() && strategy().kind == RecomputeStrategy::Kind::automatic) plan_automatically(input);
  Tensor x = options_.before ? options_.before(input) : input;
  if (!training()) return recompute::run_layers(functions(), x);
  return recompute::run_plan(recompute_plan(), functions(), x, checkpoint_options());
}

recompute::Chain BlockStack::profile(const Tensor& given, const recompute::ProfileOptions& options) {
  // The measured passes end here: they must not use up the graph that made the input.
  const Tensor input = given.requires_grad() ? given.detach().set_requires_grad() : given;
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
  set_planned(planned.plan, budget_bytes, input.numel());
  return planned;
}

// An optimizer without state yet is taken to make Adam's; gradients may be there from an earlier micro-batch.
void BlockStack::plan_automatically(const Tensor& input) {
  if (!autograd::grad_mode_enabled() || input.numel() <= planned_numel()) return;
  MemoryStats stats = allocator(input.device()).stats();
  bool has_state = stats.by_category[size_t(MemoryCategory::optimizer)] > 0;
  const Module& model = options_.model ? *options_.model : *this;
  TensorList later;  // stands for that state meanwhile
  for (const Tensor& parameter : model.parameters())
    for (int i = 0; i < 2 && !has_state; ++i)
      later.push_back(Tensor::empty(parameter.shape(), DType::f32, parameter.device()));
  plan(input, strategy().memory_budget, {.gradients = recompute::GradientMemory::held});
}

}  // namespace reprise::nn
