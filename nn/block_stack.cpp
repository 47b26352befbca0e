// Sequential by a plan.
#include "reprise/nn/block_stack.h"

namespace reprise::nn {
namespace {

// They own the layers: a graph may play them when the chain is gone.
std::vector<recompute::LayerFunction> functions_of(Sequential& layers) {
  std::vector<recompute::LayerFunction> functions;
  for (int64_t i = 0; i < layers.size(); ++i)
    functions.emplace_back([layer = layers.share(i)](const Tensor& x) { return layer->forward(x); });
  return functions;
}

}  // namespace

CheckpointedSequential::CheckpointedSequential(RecomputeStrategy strategy)
    : CheckpointedSequential(strategy, recompute::options_of(strategy)) {}

CheckpointedSequential::CheckpointedSequential(RecomputeStrategy strategy, const CheckpointOptions& options)
    : strategy_(std::move(strategy)), options_(options) {}

Tensor CheckpointedSequential::forward(const Tensor& x) {
  if (!training()) return Sequential::forward(x);
  return recompute::run_plan(recompute::plan_of(strategy_, size()), functions_of(*this), x, options_);
}

Tensor checkpoint_sequential(Sequential& layers, int64_t segments, const Tensor& x,
                             const CheckpointOptions& options, LastSegment last) {
  return recompute::checkpoint_sequential(functions_of(layers), segments, x, options, last);
}

}  // namespace reprise::nn
