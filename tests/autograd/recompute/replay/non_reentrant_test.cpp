// What only the non-reentrant mode promises: grad(), higher orders, early stop, live slots, determinism,
// debug.
#include "reprise/autograd/function.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

TEST(NonReentrant, WorksWithGradAndWithBackwardOfInputs) {
  NoLeaks guard;
  Tensor x = leaf({4}, 1), w = leaf({4}, 2);
  auto fn = [w](const Tensor& in) { return exp(square(in) * w); };
  Tensor want = grad({fn(x).sum()}, {w})[0];
  EXPECT_TRUE(same_bits(grad({checkpoint(fn, x).sum()}, {w})[0], want));
  EXPECT_FALSE(w.grad().defined());
  backward({checkpoint(fn, x).sum()}, {}, {.inputs = {w}});
  EXPECT_TRUE(same_bits(w.grad(), want));
  EXPECT_FALSE(x.grad().defined());
}

TEST(NonReentrant, HasGradientsToThirdOrder) {
  auto derivatives = [](bool with) {
    Tensor x = leaf({3}, 1), w = leaf({3}, 2);
    auto fn = [w](const Tensor& in) { return sigmoid(square(in) * w) * exp(in); };
    Tensor y = with ? checkpoint(fn, x) : fn(x);
    TensorList all;
    for (int order = 1; order <= 3; ++order) {
      Tensor first = y.sum();
      y = grad({first}, {x}, {}, {.create_graph = true})[0];
      all.push_back(y.detach());
    }
    grad({y.sum()}, {w})[0].detach();
    return all;
  };
  NoLeaks guard;
  TensorList want = derivatives(false), got = derivatives(true);
  EXPECT_TRUE(same_bits(got, want));
}

TEST(NonReentrant, GivesParametersGradientsThoughNoInputRequiresGrad) {
  NoLeaks guard;
  Tensor x = numbers({4}), w = leaf({4}, 2);
  auto fn = [w](const Tensor& in) { return square(in * w); };
  fn(x).sum().backward();
  Tensor want = w.grad();
  w.set_grad({});
  checkpoint(fn, x).sum().backward();
  EXPECT_TRUE(same_bits(w.grad(), want));
}

TEST(NonReentrant, DoesNotReplayWhereNothingWasSaved) {
  Tensor x = leaf({4});
  int calls = 0;
  checkpoint([&](const Tensor& in) { return ++calls, (in + 1.0) - in; }, x).sum().backward();
  EXPECT_EQ(calls, 1);
}

TEST(NonReentrant, StopsAtTheLastSavedTensorUnlessToldNotTo) {
  Tensor x = leaf({4});
  int ends = 0;
  auto fn = [&](const Tensor& in) {
    Tensor y = exp(square(in));
    ++ends;
    return y + 1.0;
  };
  auto ends_of = [&](auto call) {
    ends = 0;
    Tensor y = call();
    y.sum().backward();
    return ends;
  };
  EXPECT_EQ(ends_of([&] { return checkpoint(fn, x); }), 1);
  EXPECT_EQ(ends_of([&] { return checkpoint(fn, x, {.early_stop = false}); }), 2);
  EXPECT_EQ(ends_of([&] {
              EarlyStop off(false);
              return checkpoint(fn, x, {.early_stop = true});
            }),
            2);
  EXPECT_EQ(ends_of([&] {
              EarlyStop off(false);
              EarlyStop on(true);
              return checkpoint(fn, x, {.early_stop = false});
            }),
            1);
  EXPECT_EQ(ends_of([&] { return checkpoint(fn, x); }), 1) << "the scopes are gone";
  EXPECT_EQ(ends_of([&] { return checkpoint(fn, x, {.early_stop = false}); }), 2);
}

TEST(NonReentrant, StopsAtTheLastSavedTensorThatIsStillAlive) {
  Tensor x = leaf({4});
  int late = 0;
  auto fn = [&](const Tensor& in) {
    TensorList out{exp(square(in))};
    ++late;
    out.push_back(exp(square(in * 2.0)));
    return out;
  };
  Tensor y = checkpoint(fn, x)[0];  // the second branch is dead at once
  y.sum().backward();
  EXPECT_EQ(late, 1);
}

TEST(NonReentrant, ReplaysOnceForEachPartOfAGraph) {
  Tensor x = leaf({4});
  int calls = 0;
  auto fn = [&](const Tensor& in) { return ++calls, TensorList{exp(square(in)), exp(in * 2.0)}; };
  TensorList out = checkpoint(fn, x);
  out[0].sum().backward();
  EXPECT_EQ(calls, 2);
  out[1].sum().backward();
  EXPECT_EQ(calls, 3);
}

// Looks at the moment when backward passes by.
struct Watch : autograd::Function<Watch> {
  static constexpr const char* name = "watch";
  std::function<void()> see_;
  Tensor forward(const Tensor& in, const std::function<void()>& see) {
    see_ = see;
    return in.alias(in.view());
  }
  TensorList backward(const TensorList& dy) { return see_(), TensorList{dy[0]}; }
};

TEST(NonReentrant, LetsRebuiltTensorsGoAsTheyAreUnpacked) {
  NoLeaks guard;
  Tensor x = leaf({1000});
  auto bytes = [] { return allocator(testing::test_device()).stats().allocated; };
  size_t before = bytes();
  std::vector<size_t> seen;
  for (bool retain : {true, false}) {
    seen.clear();
    auto watched = [&](const Tensor& in) {
      Tensor h = in;
      for (int i = 0; i < 8; ++i) h = Watch::apply(sin(h), [&] { seen.push_back(bytes()); });
      return h;
    };
    Tensor z = checkpoint(watched, x);
    z.sum().backward({}, retain);
    ASSERT_EQ(seen.size(), 8u);
    for (size_t i = 2; i < 8; ++i) EXPECT_LT(seen[i], seen[i - 1]) << "after operation " << i;
    x.set_grad({});
  }
  EXPECT_LE(bytes(), before + 4096);
}

TEST(NonReentrant, KeepsNoRebuiltTensorAfterAPassThatDidNotReadIt) {
  NoLeaks guard;
  Tensor x = leaf({1000}), w = leaf({1000}, 2);
  auto fn = [](const Tensor& in) { return TensorList{exp(square(in)), exp(square(in * 3.0))}; };
  TensorList out = checkpoint(fn, x);
  int64_t blocks = allocator(testing::test_device()).stats().live_blocks;
  grad({out[0].sum()}, {x}, {}, {.retain_graph = true});
  EXPECT_EQ(allocator(testing::test_device()).stats().live_blocks, blocks);
}

struct Greedy : autograd::Function<Greedy> {
  static constexpr const char* name = "greedy";
  Tensor forward(const Tensor& x) {
    save(x);
    return square(x);
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(0) + dy[0] * saved(0)}; }
};

TEST(NonReentrant, UnpackingTwiceInOnePassIsAnError) {
  Tensor x = leaf({4});
  Tensor y = checkpoint([](const Tensor& in) { return Greedy::apply(in * 2.0); }, x);
  expect_error([&] { y.sum().backward(); }, {"greedy", "unpacked twice"});
}

TEST(NonReentrant, ComputesGradientsInsideForward) {
  auto run = [](bool with, bool early_stop) {
    Tensor x = leaf({4}, 1), w = leaf({4}, 2);
    auto fn = [w](const Tensor& in) {
      Tensor y = exp(square(in) * w);
      Tensor slope = grad({y.sum()}, {in}, {}, {.create_graph = true})[0];
      return y + square(slope);
    };
    Tensor y = with ? checkpoint(fn, x, {.early_stop = early_stop}) : fn(x);
    y.sum().backward();
    return TensorList{y.detach(), x.grad(), w.grad()};
  };
  NoLeaks guard;
  TensorList want = run(false, true);
  for (bool early_stop : {true, false}) {
    TensorList got = run(true, early_stop);
    EXPECT_TRUE(same_bits(got, want));
  }
}

// Backward of the matmul within transposes what the graph kept, a transpose: the weight.
TEST(NonReentrant, DifferentiatesThroughAStepInsideForward) {
  auto step = [](const TensorList& in) {
    const Tensor &x = in[0], v = in[1] * 0.5, w = in[2] * 0.5;
    const Tensor loss = sum(square(linear(tanh(linear(x, v)), w)));
    const TensorList slopes = grad({loss}, {v, w}, {}, {.create_graph = true});
    return TensorList{linear(tanh(linear(x, v - slopes[0] * 0.1)), w - slopes[1] * 0.1)};
  };
  auto outcome = [&](bool recompute) {
    const Tensor x = leaf({5, 4}, 1), v = leaf({6, 4}, 2), w = leaf({3, 6}, 3);
    const Tensor y = recompute ? checkpoint(step, TensorList{x, v, w})[0] : step({x, v, w})[0];
    sum(square(y)).backward();
    return TensorList{y.detach(), x.grad(), v.grad(), w.grad()};
  };
  const TensorList got = outcome(true), want = outcome(false);
  EXPECT_TRUE(same_bits(got, want));
}

TEST(NonReentrant, ABackwardInsideFnAddsToTheLeavesOutsideOnce) {
  auto run = [](bool with, bool early_stop) {
    Tensor x = leaf({4}, 1), w = leaf({4}, 2);
    int hooks = 0;
    w.register_hook([&](const Tensor&) { return ++hooks, Tensor(); });
    auto fn = [w](const Tensor& in) {
      Tensor own = in.detach().set_requires_grad();
      square(sin(own * w)).sum().backward();
      return exp(square(in) * own.grad());
    };
    Tensor y = with ? checkpoint(fn, x, {.early_stop = early_stop}) : fn(x);
    y.sum().backward();
    EXPECT_EQ(hooks, 1);
    return TensorList{y.detach(), x.grad(), w.grad()};
  };
  NoLeaks guard;
  TensorList want = run(false, true);
  for (bool early_stop : {true, false}) {
    TensorList got = run(true, early_stop);
    EXPECT_TRUE(same_bits(got, want));
  }
}

// A function that does something else when it is called again.
template <class First, class Again>
Tensor changing(First first, Again again, CheckpointOptions options = {}) {
  auto called = std::make_shared<int>(0);
  return checkpoint([=](const Tensor& in) { return (*called)++ ? again(in) : first(in); }, leaf({4, 4}),
                    options);
}

TEST(NonReentrant, NamesEachWayAReplayCanDiffer) {
  auto exp2 = [](const Tensor& x) { return exp(square(exp(x))); };
  auto expect = [&](auto first, auto again, std::vector<std::string> parts) {
    NoLeaks guard;
    Tensor y = changing(first, again);
    parts.push_back("checkpoint: ");
    expect_error([&] { y.sum().backward(); }, parts);
  };
  expect(exp2, [](const Tensor& x) { return exp(square(x)); },
         {"saved tensor 0", "order of operations", "exp", "square"});
  expect(exp2, [](const Tensor& x) { return exp(x); }, {"the first run saved 3 tensors", "the replay 1"});
  expect(exp2, [](const Tensor& x) { return exp(x.slice(0, 0, 2)); }, {"shape was (4, 4)", "(2, 4)"});
  expect(exp2, [](const Tensor& x) { return exp(x.to(DType::f64)); }, {"dtype was", "f32", "f64"});
  if (!testing::test_device().is_cpu())
    expect(exp2, [](const Tensor& x) { return exp(x.to(Device::cpu())); }, {"device was", "cpu"});
}

TEST(NonReentrant, KeepsItsErrorWhenFnSwallowsIt) {
  auto first = [](const Tensor& x) { return exp(square(x)); };
  auto again = [](const Tensor& x) {
    try {
      square(x.slice(0, 0, 2));
    } catch (...) {}
    return exp(x);
  };
  Tensor y = changing(first, again);
  expect_error([&] { y.sum().backward(); }, {"shape was (4, 4)", "(2, 4)"});
}

TEST(NonReentrant, CountsMoreSavedTensorsOnlyWhereItPlaysToTheEnd) {
  auto first = [](const Tensor& x) { return exp(x); };
  auto again = [](const Tensor& x) { return square(exp(x)); };
  changing(first, again).sum().backward();
  Tensor y = changing(first, again, {.early_stop = false});
  expect_error([&] { y.sum().backward(); }, {"the first run saved 1 tensors", "the replay 2"});
  y = changing(first, again, {.early_stop = false, .determinism = Determinism::none});
  y.sum().backward();
}

TEST(NonReentrant, WithoutMetadataStillNeedsEverySavedTensor) {
  auto first = [](const Tensor& x) { return exp(square(x)); };
  Tensor y = changing(first, [](const Tensor& x) { return square(x); }, {.determinism = Determinism::none});
  expect_error([&] { y.sum().backward(); }, {"the first run saved 2 tensors", "the replay 1"});
}

TEST(NonReentrant, ComparingValuesFindsASilentChangeAndNamesTheOperation) {
  Tensor factor = full({}, 2);  // on the CPU, whatever is tested
  auto fn = [&](const Tensor& in) { return exp(sin(square(in.transpose(0, 1))) * factor.to(in.device())); };
  const char* first_that_differs = testing::test_device().is_cpu() ? "f32(2, 4)" : "to -> f32()";
  for (Determinism level : {Determinism::metadata, Determinism::values}) {
    *factor.data<float>() = 2;
    Tensor y = checkpoint(fn, leaf({4, 2}), {.determinism = level});
    y.sum().backward({}, /*retain_graph=*/true);
    *factor.data<float>() = 3;  // where no version shows it
    if (level == Determinism::metadata)
      y.sum().backward();
    else
      expect_error([&] { y.sum().backward(); },
                   {"operation ", first_that_differs, "other values in the replay"});
  }
}

TEST(NonReentrant, DebugShowsBothTracesSideBySide) {
  auto first = [](const Tensor& x) { return exp(square(x + 1.0)); };
  auto again = [](const Tensor& x) { return exp(sin(x + 1.0)); };
  Tensor y = changing(first, again, {.debug = true});
  expect_error([&] { y.sum().backward(); }, {"first run", "replay", "> square f32(4, 4)", "sin f32(4, 4)"});
  {
    CheckpointDebug on(true);
    y = changing(first, again);
  }
  expect_error([&] { y.sum().backward(); }, {"> square"});
  {
    CheckpointDebug off(false);
    y = changing(first, again, {.debug = true});
  }
  try {
    y.sum().backward();
    ADD_FAILURE() << "no Error";
  } catch (const Error& error) { EXPECT_EQ(std::string(error.what()).find("> square"), std::string::npos); }
}

TEST(NonReentrant, EntersItsContextsInForwardAndReplay) {
  std::string order;
  auto scope = [&](char in, char out) {
    return [&order, in, out] {
      order += in;
      return std::shared_ptr<void>(nullptr, [&order, out](void*) { order += out; });
    };
  };
  Tensor x = leaf({4});
  auto fn = [&](const Tensor& in) {
    order += '.';
    return exp(square(in));
  };
  Tensor y = checkpoint(fn, x, {.context = {.forward = scope('f', 'F'), .replay = scope('r', 'R')}});
  EXPECT_EQ(order, "f.F");
  y.sum().backward();
  EXPECT_EQ(order, "f.Fr.R");
}

TEST(NonReentrant, ABackwardInsideTheFirstRunDrawsNothingThatComesAfterIt) {
  Tensor x = leaf({50}), want = leaf({50});
  Generator generator(3);
  auto fn = [&](const Tensor& in) {
    Tensor y = exp(in);
    Tensor slope = autograd::grad({sum(y)}, {y}, {}, {.retain_graph = true})[0];
    Tensor a = sin(y);
    slope = autograd::grad({sum(a)}, {y}, {}, {.retain_graph = true})[0];
    return dropout(a * slope, 0.5, &generator);
  };
  sum(fn(want)).backward();
  Generator::State after = generator.state();
  for (bool early_stop : {true, false}) {
    generator = Generator(3);
    x.set_grad({});
    sum(checkpoint(fn, x, {.early_stop = early_stop})).backward();
    EXPECT_EQ(generator.state(), after);
    EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  }
}

}  // namespace
}  // namespace reprise
