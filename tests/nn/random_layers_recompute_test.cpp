// Layers that draw random numbers, under checkpoints: dropout and stochastic depth, from the thread's
// generator or a user's, have the bits and leave the generators where a run without checkpoints does.
#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::same_bits;
using testing::test_device;

/// A residual block whose branch may be dropped whole, for each sample.
struct Block : Layer {
  Linear linear{5, 5, {}, test_device()};
  Dropout noise;
  DropPath path;

  Block(Generator* of_noise, Generator* of_path) : noise(0.4, {of_noise}), path(0.3, {of_path}) {
    register_module("linear", linear);
    register_module("noise", noise);
    register_module("path", path);
  }
  Tensor forward(const Tensor& x) override { return x + path(noise(gelu(linear(noise(square(x)))))); }
};

struct Generators {
  Generator noise{11}, path{12};
};

using Wrap = std::function<Tensor(Layer&, const Tensor&)>;

/// Two steps through two blocks: results, gradients, and where the generators stand.
TensorList train(const Wrap& wrap, bool own_generators) {
  manual_seed(4);
  Generators own;
  Block first(own_generators ? &own.noise : nullptr, own_generators ? &own.path : nullptr);
  Block second(nullptr, own_generators ? &own.path : nullptr);
  TensorList results;
  for (uint64_t step = 0; step < 2; ++step) {
    Tensor x = leaf({7, 5}, step), y = wrap(second, wrap(first, x));
    sum(square(y)).backward();
    results.push_back(y.detach());
    results.push_back(x.grad());
  }
  for (Block* block : {&first, &second})
    for (const Tensor& parameter : block->parameters()) results.push_back(parameter.grad());
  for (const Generator* generator : {&default_generator(), &own.noise, &own.path})
    results.push_back(scalar(double(generator->state().offset), DType::f64));
  return results;
}

TEST(CheckpointedRandomLayers, DrawTheSameFromTheThreadsGeneratorAndFromUsers) {
  for (bool own_generators : {false, true}) {
    TensorList want = train([](Layer& block, const Tensor& x) { return block(x); }, own_generators);
    for (CheckpointMode mode : kModes) {
      SCOPED_TRACE(testing::name_of(mode));
      NoLeaks guard;
      auto once = [mode](Layer& block, const Tensor& x) {
        return checkpoint([&block](const Tensor& in) { return block(in); }, x, {.mode = mode});
      };
      EXPECT_TRUE(same_bits(train(once, own_generators), want));
      auto nested = [&](Layer& block, const Tensor& x) {
        return checkpoint([&](const Tensor& in) { return once(block, in); }, x, {.mode = mode});
      };
      EXPECT_TRUE(same_bits(train(nested, own_generators), want));
    }
  }
}

TEST(CheckpointedRandomLayers, DrawNothingInEvaluation) {
  Block block(nullptr, nullptr);
  block.eval();
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({7, 5});
    uint64_t before = default_generator().state().offset;
    sum(checkpoint([&block](const Tensor& in) { return block(in); }, x, {.mode = mode})).backward();
    EXPECT_EQ(default_generator().state().offset, before);
  }
}

}  // namespace
}  // namespace reprise::nn
