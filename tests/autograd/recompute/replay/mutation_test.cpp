// Checkpoints and in-place writes, in both modes: what the replay reads must be what the forward pass read.
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::Batch;
using testing::expect_error;
using testing::kModes;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

TEST(CheckpointedWrites, RejectsAnInputChangedInPlaceNamingIt) {
  for (CheckpointMode mode : kModes) {
    auto mutate = [](const Tensor& x) {
      NoGrad guard;
      x.mul_(2);
    };
    Tensor x = leaf({4}), mask = numbers({4});
    Tensor y = checkpoint([](const TensorList& in) { return exp(in[0] + in[1]); }, {x, mask}, {.mode = mode});
    mutate(mask);
    expect_error([&] { y.sum().backward(); }, {"checkpoint: input 1", "changed in place"});
    Batch batch{x, numbers({4}), 1};
    y = checkpoint([](const Batch& in) { return exp(in.values + in.mask); }, batch, {.mode = mode});
    mutate(batch.mask);
    expect_error([&] { y.sum().backward(); }, {"checkpoint: input mask", "changed in place"});
    y = checkpoint([](const Tensor& in) { return exp(square(in)); }, x, {.mode = mode});
    mutate(x);
    expect_error([&] { y.sum().backward(); }, {"checkpoint: input 0", "changed in place"});
  }
}

TEST(CheckpointedWrites, RejectsACapturedParameterChangedInPlace) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), b = leaf({4}, 2);
    Tensor y = checkpoint([b](const Tensor& in) { return exp(in + b); }, x, {.mode = mode});
    {
      NoGrad guard;
      b.mul_(2);
    }
    expect_error([&] { y.sum().backward(); },
                 {"checkpoint: a tensor of shape (4,) that fn captured", "changed in place"});
  }
}

TEST(CheckpointedWrites, RejectsACapturedBufferChangedInPlaceAlsoBySelf) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), buffer = numbers({4}, 2);
    auto decay = [&] {
      NoGrad guard;
      buffer.mul_(0.5);
    };
    Tensor y = checkpoint([&](const Tensor& in) { return exp(in + buffer.reshape({4})); }, x, {.mode = mode});
    decay();
    expect_error([&] { y.sum().backward(); }, {"that fn captured", "version 1, was at 0"});
    auto fn = [&](const Tensor& in) {
      Tensor out = exp(in + buffer);
      if (!recompute::is_replaying()) decay();
      return out;
    };
    y = checkpoint(fn, x, {.mode = mode});
    expect_error([&] { y.sum().backward(); }, {"that fn captured", "version 2, was at 1"});
  }
}

TEST(CheckpointedWrites, AllowsWritesToItsOutputs) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    auto fn = [](const Tensor& in) {
      Tensor h = in + 1.0;
      return TensorList{h, checkpoint([](const Tensor& inner) { return exp(inner * 2.0); }, h)};
    };
    TensorList out = checkpoint(fn, x, {.mode = mode});
    {
      NoGrad guard;
      out[0].zero_();
    }
    out[1].sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), (exp((x + 1.0) * 2.0) * 2.0).detach()));
  }
}

TEST(CheckpointedWrites, RejectsATensorChangedInPlaceInside) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    auto fn = [](const Tensor& in) {
      Tensor h = square(in), y = softmax(h);
      {
        NoGrad guard;
        y.mul_(2);
      }
      return y * h;
    };
    expect_error([&] { fn(x).sum().backward(); }, {"softmax", "changed in place"});
    Tensor y = checkpoint(fn, x, {.mode = mode});
    expect_error([&] { y.sum().backward(); }, {"softmax", "changed in place"});
  }
}

}  // namespace
}  // namespace reprise
