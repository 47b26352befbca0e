// A small GPT, what trains it on ranks, and in which way it recomputes.
#pragma once

#include <string>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/nn/small_models.h"

namespace reprise::testing {

inline const nn::GptOptions gpt{.vocab_size = 60, .context = 16, .layers = 4, .heads = 2, .width = 80};

/// How it computes.
struct Way {
  std::string name;
  std::string strategy = "none";
  recompute::CheckpointMode mode = recompute::CheckpointMode::non_reentrant;
  DType compute = DType::f32;
};

/// A GPT and what trains it; in a group of one by AdamW.
struct GptRun {
  nn::Gpt model;
  distributed::DataParallel parallel;
  distributed::ShardedAdamW optimizer;
  const Way& way;

  GptRun(distributed::ProcessGroup& group, const Way& of, int stage, const nn::GptOptions& options = gpt)
      : model(with_dropout(options)),
        parallel(model, group),
        optimizer(parallel, optim::decay_matrices(model, 1e-2, 0.1), {.stage = stage}),
        way(of) {
    const RecomputeStrategy strategy = parse_strategy(way.strategy);
    CheckpointOptions checkpoints = recompute::options_of(strategy);
    checkpoints.mode = way.mode;
    model.h.set_recompute(recompute::plan_of(strategy, options.layers), checkpoints);
  }
  static nn::GptOptions with_dropout(nn::GptOptions options) {
    manual_seed(5);
    options.dropout = 0.1;
    return options;
  }

  Tensor loss(int64_t step, int64_t g) {
    manual_seed(uint64_t(100 * step + g));
    std::optional<amp::Autocast> autocast;
    if (way.compute != DType::f32) autocast.emplace(Device::cpu(), way.compute);
    const Tensor ids = random_tokens({2, 16}, 60, uint64_t(100 * step + g));
    return cross_entropy(model(ids), ids);
  }
  void step(int64_t step, int64_t count = 6) {
    for (const int64_t g : parallel.share(count)) parallel.backward(loss(step, g), g);
    optimizer.step(optim::clip_scale(optimizer.grad_norm(), 1.0));
    optimizer.zero_grad();
  }
  std::string weights() {
    const distributed::WholeWeights whole(parallel);
    std::string lines;
    for (const auto& [name, x] : model.named_parameters()) lines += name + ' ' + checksum(x) + '\n';
    return lines;
  }
};

}  // namespace reprise::testing
