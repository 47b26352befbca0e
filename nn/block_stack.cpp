// How the blocks run, and what the planner measures of them.
#include "reprise/nn/block_stack.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/shadow.h"

namespace reprise::nn {
std::vector<recompute::LayerFunction> BlockStack::functions() const {
  std::vector<recompute::LayerFunction> functions;
  for (int64_t i = 0; i < size(); ++i)
    functions.emplace_back(
        [block = share(i), name = options_.name + "." + std::to_string(i)](const Tensor& x) {
          OpScope scope(name);
          return (*block)(x);
        });
  return functions;
}

Tensor BlockStack::forward(const Tensor& input) {
  if (training()) plan_if_automatic(input, options_.model ? *options_.model : *this);
  Tensor x = options_.before ? options_.before(input) : input;
  if (!training()) return recompute::run_layers(functions(), x);
  return recompute::run_plan(recompute_plan(), functions(), x, checkpoint_options());
}

recompute::Chain BlockStack::measured(const Tensor& given, const recompute::ProfileOptions& options) {
  // The measured passes end here: they must not use up the graph that made the input.
  const Tensor input = given.requires_grad() ? given.detach().set_requires_grad() : given;
  if (!given.is_leaf()) autograd::mark_stand_in(input);
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

}  // namespace reprise::nn
