// Batch normalisation under checkpoints: running statistics change in the first run only, so that all state,
// outputs and gradients have the bits of a run without checkpoints.
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/conv.h"
#include "reprise/nn/layers.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

const Shape kShape = {2, 3, 4, 3};

Tensor start(BatchNorm2d& norm, const Tensor& x) { return norm.forward(x, {.activation = Activation::relu}); }
Tensor end(BatchNorm2d& norm, const Tensor& residual, const Tensor& x) {
  return norm.forward(x, {.activation = Activation::relu, .residual = residual});
}

/// Two convolutions with batch normalisation and dropout; the second norm is used twice.
struct Block : Layer {
  Conv2d first, second;
  BatchNorm2d norm1, norm2;
  Dropout noise{0.3};

  explicit Block(std::optional<double> momentum = 0.1)
      : first(3, 4, 3, {.padding = 1}, test_device()),
        second(4, 3, 1, {}, test_device()),
        norm1(4, {.momentum = momentum}, test_device()),
        norm2(3, {.momentum = momentum}, test_device()) {
    register_module("first", first);
    register_module("second", second);
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("noise", noise);
  }
  Tensor forward(const Tensor& x) override {
    return end(norm2, x, noise(relu(norm2(second(start(norm1, first(x)))))));
  }
};

using Wrap = std::function<Tensor(Block&, const Tensor&)>;
struct NamedWrap {
  std::string name;
  Wrap run;
};

Tensor plain(Block& block, const Tensor& x) { return block(x); }

/// Each way to play a block under checkpoints.
std::vector<NamedWrap> checkpointed() {
  auto by = [](const CheckpointOptions& options) {
    return [options](Block& block, const Tensor& x) {
      return checkpoint([&block](const Tensor& in) { return block(in); }, x, options);
    };
  };
  auto nested = [](const CheckpointOptions& outer, const CheckpointOptions& inner) {
    return [=](Block& block, const Tensor& x) {
      auto play = [&block, inner](const Tensor& in) {
        Tensor h =
            checkpoint([&block](const Tensor& y) { return start(block.norm1, block.first(y)); }, in, inner);
        auto rest = [&block, in](const Tensor& y) {
          return end(block.norm2, in, block.noise(relu(block.norm2(block.second(y)))));
        };
        return checkpoint(rest, h, inner);
      };
      return checkpoint(play, x, outer);
    };
  };
  std::vector<NamedWrap> all = {
      {"until the end", by({.early_stop = false})},
      {"values compared", by({.determinism = Determinism::values})},
      {"nothing compared", by({.determinism = Determinism::none})},
      {"batch norm saved", by({.policy = {"batch_norm", "batch_norm_inference"}})},
      {"all but cheap operations saved", by({.policy = recompute::recompute_cheap()})},
  };
  for (CheckpointMode mode : kModes) {
    all.push_back({testing::name_of(mode), by({.mode = mode})});
    for (CheckpointMode inner : kModes)
      all.push_back({detail::join(testing::name_of(inner), " in ", testing::name_of(mode)),
                     nested({.mode = mode}, {.mode = inner})});
  }
  return all;
}

/// Outputs, gradients and state after `steps`, from the same start.
using Steps = std::function<void(Block&, const Wrap&, TensorList&)>;
TensorList results_of(const Wrap& wrap, const Steps& steps, std::optional<double> momentum) {
  manual_seed(3);
  Block block(momentum);
  TensorList results;
  steps(block, wrap, results);
  for (const auto& [name, tensor] : block.state_dict()) {
    results.push_back(tensor.detach().clone());
    if (tensor.grad().defined()) results.push_back(tensor.grad());
  }
  return results;
}

/// Expects the bits of a run without checkpoints from every way to checkpoint.
void expect_same_bits_in_all_modes(const Steps& steps, std::optional<double> momentum = 0.1) {
  TensorList want = results_of(plain, steps, momentum);
  for (const NamedWrap& way : checkpointed()) {
    SCOPED_TRACE(way.name);
    NoLeaks guard;
    TensorList got = results_of(way.run, steps, momentum);
    EXPECT_TRUE(same_bits(got, want));
  }
}

void train_step(Block& block, const Wrap& wrap, TensorList& results, uint64_t seed) {
  Tensor x = leaf(kShape, seed), y = wrap(block, x);
  sum(square(y)).backward();
  results.push_back(y.detach());
  results.push_back(x.grad());
}

TEST(CheckpointedBatchNorm, KeepsEveryBitOfItsStateOverTrainingSteps) {
  for (std::optional<double> momentum : {std::optional(0.1), std::optional<double>()})
    expect_same_bits_in_all_modes(
        [](Block& block, const Wrap& wrap, TensorList& results) {
          for (uint64_t step = 0; step < 2; ++step) {
            train_step(block, wrap, results, step);
            NoGrad guard;
            for (const Tensor& parameter : block.parameters()) parameter.add_(parameter.grad(), -0.01);
            block.zero_grad();
          }
          EXPECT_EQ(block.norm1.num_batches_tracked.item(), 2);
          EXPECT_EQ(block.norm2.num_batches_tracked.item(), 4);
        },
        momentum);
}

TEST(CheckpointedBatchNorm, KeepsItsStateOverAccumulatedGradients) {
  expect_same_bits_in_all_modes([](Block& block, const Wrap& wrap, TensorList& results) {
    for (uint64_t micro = 0; micro < 3; ++micro) train_step(block, wrap, results, micro);
  });
}

TEST(CheckpointedBatchNorm, ChangesItsStateWhereNoBackwardFollows) {
  expect_same_bits_in_all_modes([](Block& block, const Wrap& wrap, TensorList& results) {
    results.push_back(wrap(block, leaf(kShape)).detach());
    EXPECT_EQ(block.norm2.num_batches_tracked.item(), 2);
  });
}

TEST(CheckpointedBatchNorm, ChangesItsStateOnceWhereBackwardRunsTwice) {
  expect_same_bits_in_all_modes([](Block& block, const Wrap& wrap, TensorList& results) {
    Tensor x = leaf(kShape), loss = sum(square(wrap(block, x)));
    for (bool retain : {true, true, false}) loss.backward({}, retain);
    results.push_back(x.grad());
    EXPECT_EQ(block.norm1.num_batches_tracked.item(), 1);
  });
}

TEST(CheckpointedBatchNorm, MayGoForwardOftenBeforeBackward) {
  expect_same_bits_in_all_modes([](Block& block, const Wrap& wrap, TensorList& results) {
    Tensor x = leaf(kShape, 1), z = leaf(kShape, 2);
    Tensor loss = sum(wrap(block, x) * wrap(block, z));  // the second changes what the first has updated
    loss.backward();
    results.push_back(x.grad());
    results.push_back(z.grad());
  });
}

TEST(CheckpointedBatchNorm, ChangesItsStateUnderNoGradAndNotInEvaluation) {
  expect_same_bits_in_all_modes([](Block& block, const Wrap& wrap, TensorList& results) {
    {
      NoGrad guard;
      results.push_back(wrap(block, leaf(kShape)));
    }
    EXPECT_EQ(block.norm1.num_batches_tracked.item(), 1);
    block.eval();
    train_step(block, wrap, results, 2);
    EXPECT_EQ(block.norm1.num_batches_tracked.item(), 1);
  });
}

TEST(CheckpointedBatchNorm, AllowsOthersToChangeStateThatItDoesNotRead) {
  expect_same_bits_in_all_modes([](Block& block, const Wrap& wrap, TensorList& results) {
    Tensor x = leaf(kShape), y = wrap(block, x);
    {
      NoGrad guard;
      block.norm1.running_mean.fill_(7);
    }
    sum(square(y)).backward();
    results.push_back(x.grad());
  });
}

TEST(CheckpointedBatchNorm, RejectsStateChangedAfterAnEvaluationReadIt) {
  for (CheckpointMode mode : kModes) {
    BatchNorm1d norm(3, {}, test_device());
    norm.eval();
    Tensor x = leaf({5, 3});
    auto run = [&] {
      return checkpoint([&](const Tensor& in) { return square(norm(in)); }, x, {.mode = mode});
    };
    for (const Tensor& buffer : {norm.running_mean, norm.running_var}) {
      Tensor y = run();
      {
        NoGrad guard;
        buffer.mul_(2);
      }
      expect_error([&] { sum(y).backward(); },
                   {"a tensor of shape (3,) that fn captured", "changed in place"});
    }
    Tensor y = run();
    norm.train();
    norm(x.detach());  // its own update is another's to a region that has read it
    norm.eval();
    expect_error([&] { sum(y).backward(); }, {"that fn captured", "changed in place"});
  }
}

TEST(CheckpointedBatchNorm, MayReadStateAfterItsOwnUpdateAndNotBefore) {
  for (CheckpointMode mode : kModes) {
    BatchNorm1d norm(3, {}, test_device());
    Tensor x = leaf({5, 3});
    auto once = [&](bool training, const Tensor& in) {
      norm.train(training);
      return norm(in);
    };
    auto run = [&](bool training_first) {
      return checkpoint(
          [&, training_first](const Tensor& in) {
            return square(once(!training_first, once(training_first, in)));
          },
          x, {.mode = mode});
    };
    EXPECT_NO_THROW(sum(run(true)).backward());
    EXPECT_EQ(norm.num_batches_tracked.item(), 1);
    Tensor y = run(false);
    expect_error([&] { sum(y).backward(); }, {"that fn captured", "changed in place"});
  }
}

TEST(CheckpointedBatchNorm,
     KeepsTheBitsOfARegionThatEndsWithIt) {  // the replay then needs the statistics alone
  for (bool training : {true, false}) {
    auto grads = [&](bool with) {
      BatchNorm2d norm(3, {}, test_device());
      norm.train(training);
      Tensor x = leaf(kShape);
      auto fn = [&](const Tensor& in) { return norm(square(in)); };
      sum(square(with ? checkpoint(fn, x) : fn(x))).backward();
      return TensorList{x.grad(), norm.weight.grad(), norm.bias.grad(), norm.running_var};
    };
    TensorList want = grads(false), got = grads(true);
    EXPECT_TRUE(same_bits(got, want));
  }
}

TEST(CheckpointedBatchNorm, RejectsAReplayInTheOtherMode) {
  BatchNorm1d norm(3, {}, test_device());
  Tensor x = leaf({5, 3});
  Tensor y = checkpoint([&](const Tensor& in) { return square(norm(in)); }, x);
  norm.eval();
  expect_error([&] { sum(y).backward(); }, {"batch_norm", "batch_norm_inference"});
}

}  // namespace
}  // namespace reprise::nn
