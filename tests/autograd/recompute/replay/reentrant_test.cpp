// What the reentrant mode refuses, and what it does with inputs that need no gradient.
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::leaf;
using testing::numbers;
using testing::same_bits;

CheckpointOptions with(CheckpointOptions options) {
  options.mode = CheckpointMode::reentrant;
  return options;
}
const CheckpointOptions kReentrant = with({});

Tensor exp_of_square(const Tensor& x) { return exp(square(x)); }

TEST(Reentrant, IsIncompatibleWithGradAndBackwardOfInputs) {
  Tensor x = leaf({4});
  std::vector<std::string> message{"reentrant checkpoint is incompatible with grad() or backward(inputs)"};
  expect_error([&] { grad({checkpoint(exp_of_square, x, kReentrant).sum()}, {x}); }, message);
  expect_error([&] { backward({checkpoint(exp_of_square, x, kReentrant).sum()}, {}, {.inputs = {x}}); },
               message);
}

TEST(Reentrant, IsIncompatibleWithCreateGraph) {
  Tensor x = leaf({4});
  Tensor y = checkpoint(exp_of_square, x, kReentrant).sum();
  expect_error([&] { y.backward({}, {}, /*create_graph=*/true); }, {"reentrant", "create_graph"});
}

TEST(Reentrant, RefusesOptionsThatItCannotKeepAtTheCall) {
  Tensor x = leaf({4});
  auto refuse = [&](CheckpointOptions options, const std::string& name) {
    expect_error([&] { checkpoint(exp_of_square, x, with(options)); },
                 {"checkpoint: " + name, "non_reentrant"});
  };
  refuse({.context = {.replay = [] { return std::make_shared<NoGrad>(); }}}, "context");
  refuse({.debug = true}, "debug");
  refuse({.determinism = Determinism::values}, "determinism values");
}

TEST(Reentrant, WarnsOnceWhenNothingThatItReadsRequiresGrad) {
  Tensor x = numbers({4}), w = leaf({4}, 2);
  auto fn = [w](const Tensor& in) { return square(in * w); };
  fn(x).sum().backward();
  Tensor want = w.grad();
  w.set_grad({});
  ::testing::internal::CaptureStderr();
  Tensor y = checkpoint(fn, x, kReentrant);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) checkpoint([](const Tensor& in) { return square(in); }, x, kReentrant);
  std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("warning"), std::string::npos);
  EXPECT_EQ(text.find("warning"), text.rfind("warning"));
  y.sum().backward();
  EXPECT_TRUE(same_bits(w.grad(), want)) << "parameters inside still get gradients";
}

TEST(Reentrant, ErrorIfNoOutputRequiresGrad) {
  Tensor x = leaf({4});
  Tensor y = checkpoint([](const Tensor& in) { return exp(in.detach()); }, x, kReentrant);
  expect_error([&] { y.sum().backward(); }, {"no output of fn requires grad"});
}

TEST(Reentrant, ErrorIfTheReplayReturnsSomethingElse) {
  Tensor x = leaf({4});
  auto expect = [&](auto change, std::vector<std::string> parts) {
    int calls = 0;
    Tensor y = checkpoint([&](const Tensor& in) { return calls++ ? change(in) : TensorList{exp(in)}; }, x,
                          kReentrant)[0];
    expect_error([&] { y.sum().backward(); }, parts);
  };
  expect([](const Tensor& in) { return TensorList{exp(in), in}; }, {"returned 1 tensors", "2 in the replay"});
  expect([](const Tensor& in) { return TensorList{exp(in).sum()}; }, {"output 0", "shape (4,)"});
  expect([](const Tensor& in) { return TensorList{exp(in).to(DType::f64)}; }, {"output 0", "f32", "f64"});
}

TEST(Reentrant, KeepsNoGraphThatFnMakesForItself) {
  Tensor x = leaf({4});
  auto fn = [](const Tensor& in) {
    EnableGrad guard;
    Tensor own = in.detach().set_requires_grad();
    Tensor slope = grad({exp(square(own)).sum()}, {own})[0];
    return in.detach() * slope;
  };
  int64_t nodes = autograd::live_nodes();
  Tensor y = checkpoint(fn, x, kReentrant);
  EXPECT_LE(autograd::live_nodes(), nodes + 3);  // the checkpoint, the ends at x and own
}

TEST(Reentrant, GivesTensorsOfItsOwnAndLeavesThoseThatFnKeeps) {
  Tensor x = leaf({4}), kept;
  Tensor y = checkpoint([&](const Tensor& in) { return kept = exp(in); }, x, kReentrant);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(kept.requires_grad());
  EXPECT_EQ(kept.storage(), y.storage()) << "and of the same memory";
}

TEST(Reentrant, DoesNotRunWhatGotNoGradient) {
  Tensor x = leaf({1}), inf = full({1}, 1e30, DType::f32, testing::test_device());
  auto fn = [&](const Tensor& in) { return TensorList{square(in), square(square(in * inf))}; };
  checkpoint(fn, x, kReentrant)[0].sum().backward();  // a zero gradient of the second would give 0 * inf
  EXPECT_TRUE(same_bits(x.grad(), (x * 2.0).detach()));
}

TEST(Reentrant, AddsTheGradientsOfATensorThatItWasGivenAndCapturedInTheirOrder) {
  Tensor x = leaf({50}), want = leaf({50});
  auto fn = [](const Tensor& given, const Tensor& captured) {
    return sin(given) * captured * exp(given) * tanh(captured) * given;
  };
  sum(fn(want, want) * want * 3.0).backward();
  CheckpointOptions options{.mode = CheckpointMode::reentrant};
  auto once = [&](const Tensor& in) { return fn(in, x); };
  sum(checkpoint(once, x, options) * x * 3.0).backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  x.set_grad({});
  auto nested = [&](const Tensor& in) {
    return checkpoint([=](const Tensor& again) { return fn(again, in) * fn(x, again); }, in, options);
  };
  sum(checkpoint(nested, x, options)).backward();
  want.set_grad({});
  sum(fn(want, want) * fn(want, want)).backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
}

TEST(Reentrant, PassesATensorOnThatItCapturedAndThatNeedsNoGradient) {
  Tensor x = leaf({4}), mask = numbers({4});
  auto fn = [&](const Tensor& in) { return TensorList{square(in) * mask, mask, mask.slice(0, 0, 2)}; };
  TensorList outputs = checkpoint(fn, x, kReentrant);
  EXPECT_TRUE(outputs[0].requires_grad());
  EXPECT_TRUE(outputs[1].is_same(mask));
  EXPECT_FALSE(outputs[2].requires_grad());
}

TEST(Reentrant, GivesWhatFnMadeWithRecordingOnAGradientInItsPlaceInTheOrder) {
  auto fn = [](const Tensor& in) {
    Tensor late;
    {
      EnableGrad guard;
      late = in * 1.1;
    }
    return TensorList{sin(in) * exp(in), late};
  };
  auto gradient = [](const TensorList& outputs, const Tensor& x) {
    sum(outputs[0] * outputs[1] * outputs[1]).backward();
    return x.grad();
  };
  Tensor x = leaf({50}), want = leaf({50});
  EXPECT_TRUE(same_bits(gradient(checkpoint(fn, x, kReentrant), x), gradient(fn(want), want)));
}

}  // namespace
}  // namespace reprise
