// What a Gpt's step holds in each precision, of shapes alone (docs/mixed_precision.md).
#include <gtest/gtest.h>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/no_compute.h"
#include "reprise/nn/memory/memory_report.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/small_models.h"

namespace reprise::nn {
namespace {

enum class Mode : uint8_t { f32, autocast, pure };

struct Size {
  GptOptions model;
  int64_t rows, length;
};

const Size kSmall{.model = {.vocab_size = 65, .context = 256, .layers = 6, .heads = 6, .width = 384},
                  .rows = 16,
                  .length = 256};
const Size k124M{.model = {}, .rows = 4, .length = 256};

class Scope {
 public:
  explicit Scope(Mode mode) {
    if (mode == Mode::f32) return;
    const auto norms = mode == Mode::pure ? amp::Norms::as_given : amp::Norms::f32;
    scope_.emplace(Device::cpu(), DType::bf16, amp::AutocastOptions{.norms = norms});
  }

 private:
  std::optional<amp::Autocast> scope_;
};

double mib(size_t bytes) { return double(bytes) / (1 << 20); }

// Of all that a forward pass leaves for backward, in MiB: of the logits too, or in f32 of their gradient in their place.
double held_for_backward(const Size& size, Mode mode) {
  const NoCompute no_compute;
  Gpt model(size.model);
  if (mode == Mode::pure) to_precision(model, DType::bf16);
  const Tensor ids = testing::random_tokens({size.rows, size.length}, size.model.vocab_size, 1);
  const auto activations = [] {
    return allocator(Device::cpu()).stats().by_category[size_t(MemoryCategory::activations)];
  };
  const size_t before = activations();
  const Scope scope(mode);
  const Tensor loss = cross_entropy(model(ids), ids);
  return mib(activations() - before);
}

// The peak of a step's activations and of what recompute makes in their place.
size_t peak(const Size& size, Mode mode, const char* strategy) {
  const NoCompute no_compute;
  Gpt model(size.model);
  if (mode == Mode::pure) to_precision(model, DType::bf16);
  auto loss = [&](int64_t rows) {
    const Scope scope(mode);
    const Tensor ids = testing::random_tokens({rows, size.length}, size.model.vocab_size, 1);
    return cross_entropy(model(ids), ids);
  };
  const MemoryReport report = memory_report(
      {.model = model, .loss = loss, .blocks = &model.h, .rows = size.rows, .budget = size_t(64) << 30},
      {.strategies = {strategy}, .rounds = 0});
  return report.strategies.at(0).peak_activations;
}

// What 12 numbers per channel, token and block are, and at the end of the model the last norm's input and output and the logits.
// In pure bf16 it is half, to the statistics of norms, attention and the loss, which are f32 and f64.
TEST(HeldBytes, FollowTheDtypesOfWhatABlockKeeps) {
  const struct {
    const Size& size;
    Mode mode;
    double want;
  } cases[] = {{kSmall, Mode::f32, 446.0}, {kSmall, Mode::autocast, 262.5}, {kSmall, Mode::pure, 223.5},
               {k124M, Mode::f32, 635.1},  {k124M, Mode::autocast, 355.4},  {k124M, Mode::pure, 317.9}};
  for (const auto& [size, mode, want] : cases) {
    const double channels = double(size.rows * size.length * size.model.width * size.model.layers);
    const double of_a_channel = mode == Mode::f32 ? 12 * 4 : mode == Mode::autocast ? 2 * 4 + 10 * 2 : 12 * 2;
    const double held = held_for_backward(size, mode);
    EXPECT_NEAR(held, want, 0.1) << int(mode);
    EXPECT_GT(held, channels * of_a_channel / (1 << 20)) << int(mode);
  }
}

// `full` keeps the inputs of blocks alone, which under autocast are the f32 residual stream.
TEST(HeldBytes, PeakOfAStepFollowsThem) {
  for (const Size& size : {kSmall, k124M})
    for (bool full : {false, true}) {
      const char* strategy = full ? "full" : "none";
      const double f32 = double(peak(size, Mode::f32, strategy));
      const double autocast = double(peak(size, Mode::autocast, strategy)) / f32,
                   pure = double(peak(size, Mode::pure, strategy)) / f32;
      EXPECT_LE(autocast, full ? 0.75 : 0.60) << strategy;
      EXPECT_LE(pure, 0.53) << strategy;
    }
}

}  // namespace
}  // namespace reprise::nn
