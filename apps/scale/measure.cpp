// Profiles that are measured: the planner's profile of each block, and steps of AdamW.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>

#include "reprise/apps/scale/step_profile.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/parallel.h"
#include "reprise/core/random.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/train/precision.h"

namespace reprise::apps::scale {
namespace {

constexpr uint64_t measured_seed = 1337;

Tensor random_tokens(const ModelShape& shape, BatchShape batch, Device device) {
  Generator generator(measured_seed);
  Tensor uniform = rand({batch.rows, batch.length}, DType::f32, device, &generator);
  return cast(uniform * double(shape.vocab_size), DType::i64);
}

// The median of three updates, with gradients of a training step; the first one, which makes the moments, does not count.
double measure_update(nn::Gpt& gpt, const Tensor& tokens, Device device) {
  using Clock = std::chrono::steady_clock;
  optim::AdamW optimizer(optim::decay_matrices(gpt, 1e-3, 0.1));
  cross_entropy(gpt(tokens), tokens).backward();
  optimizer.step();
  std::vector<double> seconds;
  for (int i = 0; i < 3; ++i) {
    synchronize(device);
    const auto begin = Clock::now();
    optimizer.step();
    synchronize(device);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  optimizer.zero_grad();
  std::sort(seconds.begin(), seconds.end());
  return seconds[1];
}

Layer layer_of(const recompute::Stage& stage, std::string name, std::vector<int64_t> parameters) {
  return {.name = std::move(name),
          .parameters = std::move(parameters),
          .forward_seconds = stage.forward_seconds,
          .backward_seconds = stage.backward_seconds,
          .saved_bytes = double(stage.saved_bytes),
          .output_bytes = double(stage.boundary_bytes)};
}

}  // namespace

StepProfile measured_profile(const ModelShape& shape, BatchShape batch, const std::string& device_name,
                             const std::string& precision) {
  check(shape.family == ModelFamily::gpt, "--model ", shape.name,
        " is a shape for comparison, which Reprise cannot run: give --device h100");
  check(batch.length <= shape.context, "--length ", batch.length, " is more than the context of ", shape.name,
        ", ", shape.context);
  const Device device = Device::parse(device_name);
  manual_seed(measured_seed);
  nn::Gpt gpt({.vocab_size = shape.vocab_size,
               .context = shape.context,
               .layers = shape.layers,
               .heads = shape.heads,
               .width = shape.width},
              device);
  train::to_precision(gpt, train::parse_precision(precision));
  train::use_main_gradients(gpt);
  const Tensor tokens = random_tokens(shape, batch, device);
  StepProfile profile{
      .model = shape.name,
      .origin = fmt::format("measured here on {} ({} threads)", reprise::detail::join(device), num_threads()),
      .is_measured = true,
      .tokens = batch.rows * batch.length,
      .update_seconds = measure_update(gpt, tokens, device)};
  const recompute::Chain chain = gpt.h.profile(tokens);
  profile.layers.push_back(layer_of(chain.before, "embedding", embedding_parameters(shape)));
  for (int64_t i = 0; i < chain.size(); ++i) {
    profile.layers.push_back(
        layer_of(chain.stages[size_t(i)], "block " + std::to_string(i), block_parameters(shape)));
    profile.layers.back().is_block = true;
  }
  profile.layers.push_back(layer_of(chain.after, "head", head_parameters(shape)));
  return profile;
}

}  // namespace reprise::apps::scale
