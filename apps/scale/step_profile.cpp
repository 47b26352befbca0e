// Profiles that are assumed of a device.
#include "reprise/apps/scale/step_profile.h"

#include <fmt/core.h>

#include <numeric>

#include "reprise/core/error.h"
#include "reprise/core/quote.h"

namespace reprise::apps::scale {

int64_t Layer::numel() const { return std::accumulate(parameters.begin(), parameters.end(), int64_t(0)); }

int64_t StepProfile::numel() const {
  int64_t sum = 0;
  for (const Layer& layer : layers) sum += layer.numel();
  return sum;
}

DeviceSpeed device_speed(const std::string& name) {
  // Peaks are NVIDIA's data sheets: 989 TFLOP/s of bf16 without sparsity, 67 of f32, 3.35 and 4.8 TB/s. That training reaches 45 %
  // of the first, 70 % of the second and 80 % of the memory bandwidth is assumed; --tflops replaces it.
  constexpr double flops_16 = 0.45 * 989e12, flops_32 = 0.7 * 67e12;
  if (name == "h100") return {name, flops_16, flops_32, 0.8 * 3.35e12, 80e9};
  if (name == "h200") return {name, flops_16, flops_32, 0.8 * 4.8e12, 141e9};
  fail("--device ", quote(name), " is not one of h100 and h200 (assumed) and cpu and cuda (measured here)");
}

namespace {

// What a block keeps for backward, in elements per token and width: 34 bytes of it in 16 bits (Korthikanti et al. 2022, with an
// attention that keeps no scores), less the 2 of its input.
constexpr double saved_elements = 16;

// AdamW reads gradient, two moments and the weight in f32 and writes all but the gradient; beside weights of 16 bits it writes
// these too.
double update_bytes(bool is_pure) { return is_pure ? 30 : 28; }

}  // namespace

StepProfile assumed_profile(const ModelShape& shape, BatchShape batch, const DeviceSpeed& device,
                            bool is_16_bit, bool is_pure) {
  check(batch.length <= shape.context, "--length ", batch.length, " is more than the context of ", shape.name,
        ", ", shape.context);
  const double flops = is_16_bit ? device.flops_16 : device.flops_32, element = is_16_bit ? 2 : 4;
  const double tokens = double(batch.rows) * double(batch.length), width = double(shape.width);
  StepProfile profile{
      .model = shape.name,
      .origin = fmt::format("assumed of an {}: {:.0f} TFLOP/s reached in products, {:.2f} TB/s of memory",
                            device.name, flops / 1e12, device.memory_bandwidth / 1e12),
      .tokens = int64_t(tokens)};
  auto add = [&](std::string name, std::vector<int64_t> parameters, double flops_per_token, double saved,
                 double output) -> Layer& {
    const double forward = flops_per_token * tokens / flops;
    return profile.layers.emplace_back(
        Layer{std::move(name), std::move(parameters), forward, 2 * forward, saved * tokens, output * tokens});
  };
  add("embedding", embedding_parameters(shape), 0, 0, width * element);
  for (int64_t i = 0; i < shape.layers; ++i)
    add("block " + std::to_string(i), block_parameters(shape), block_flops(shape, batch.length),
        saved_elements * width * element, width * element)
        .is_block = true;
  // The head keeps its input, normed, and the logits.
  add("head", head_parameters(shape), head_flops(shape), (width + double(shape.vocab_size)) * element, 0);
  profile.update_seconds = update_bytes(is_pure) * double(profile.numel()) / device.memory_bandwidth;
  return profile;
}

}  // namespace reprise::apps::scale
