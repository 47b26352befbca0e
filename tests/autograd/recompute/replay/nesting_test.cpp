// Checkpoints inside checkpoints in any mix of modes, many of them, and from several threads.
#include <thread>

#include "reprise/autograd/function.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::kModes;
using testing::leaf;
using testing::many;
using testing::name_of;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;

using Wrap = std::function<Tensor(const std::function<Tensor(const Tensor&)>&, const Tensor&)>;
Wrap plainly() {
  return [](auto& fn, const Tensor& x) { return fn(x); };
}
Wrap in(CheckpointMode mode) {
  return [mode](auto& fn, const Tensor& x) { return checkpoint(fn, x, {.mode = mode}); };
}

// Two levels: the outer region has work before, between and after two inner ones.
struct Nested {
  int outer_calls = 0, inner_calls = 0;
  TensorList grads;

  void run(const Wrap& outer, const Wrap& inner) {
    Tensor x = leaf({6}, 1), w = leaf({6}, 2);
    manual_seed(3);
    auto inner_fn = [&](const Tensor& h) { return ++inner_calls, exp(dropout(sin(h * w), 0.3)); };
    auto outer_fn = [&](const Tensor& h) {
      ++outer_calls;
      Tensor a = inner(inner_fn, square(h));
      Tensor b = inner(inner_fn, sin(a) + h);
      return square(dropout(b, 0.4)) * w;
    };
    Tensor y = outer(outer_fn, x);
    y.sum().backward();
    grads = {y.detach(), x.grad(), w.grad()};
  }
};

TEST(NestedCheckpoints, KeepTheBitsInAnyMixOfModes) {
  Nested plain;
  plain.run(plainly(), plainly());
  for (CheckpointMode outer : kModes)
    for (CheckpointMode inner : kModes) {
      SCOPED_TRACE(std::string(name_of(outer)) + " around " + name_of(inner));
      Nested got;
      NoLeaks guard;
      got.run(in(outer), in(inner));
      EXPECT_TRUE(same_bits(got.grads, plain.grads));
      EXPECT_EQ(got.outer_calls, 2);
      // Forward, the replay of the outer region, and one replay of each inner region's own.
      EXPECT_EQ(got.inner_calls, 6);
      got.grads.clear();
    }
}

TEST(NestedCheckpoints, PlayALevelOnceMoreThanTheOneAroundIt) {
  for (CheckpointMode mode : kModes) {
    NoLeaks guard;
    constexpr int kDepth = 5;
    std::vector<int> calls(kDepth);
    std::function<Tensor(const Tensor&, int)> level = [&](const Tensor& h, int depth) -> Tensor {
      if (depth == kDepth) return h;
      auto fn = [&, depth](const Tensor& x) {
        ++calls[size_t(depth)];
        return square(level(sin(x), depth + 1));
      };
      return checkpoint(fn, h, {.mode = mode});
    };
    Tensor x = leaf({4});
    level(x, 0).sum().backward();
    for (int depth = 0; depth < kDepth; ++depth)
      EXPECT_EQ(calls[size_t(depth)], depth + 2) << "level " << depth;
    Tensor got = x.grad(), h = leaf({4}), y = h;
    for (int i = 0; i < kDepth; ++i) y = sin(y);
    for (int i = 0; i < kDepth; ++i) y = square(y);
    y.sum().backward();
    EXPECT_TRUE(same_bits(got, h.grad()));
  }
}

TEST(NestedCheckpoints, HooksAroundOnePackItsInputsAlone) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4}), y;
    auto fn = [](const Tensor& in) { return exp(square(sin(in))); };
    fn(x).sum().backward();
    Tensor want = x.grad();
    x.set_grad({});
    int packs = 0, unpacks = 0;
    {
      autograd::SavedTensorHooks hooks(
          [&](const Tensor& kept) { return ++packs, std::any(kept.clone()); },
          [&](const std::any& kept) { return ++unpacks, std::any_cast<Tensor>(kept); });
      y = checkpoint(fn, x, {.mode = mode});
    }
    y.sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), want));
    EXPECT_EQ(packs, 1);
    EXPECT_EQ(unpacks, 1);
  }
}

TEST(ManyCheckpoints, RunInOneBackwardWithoutRecursion) {
  for (CheckpointMode mode : kModes) {
    auto run = [&](bool with) {
      Tensor x = leaf({3}, 1), w = leaf({3}, 2), h = x;
      auto fn = [&](const Tensor& a) { return sin(a * w) + a; };
      for (int i = 0; i < many(); ++i) h = with ? checkpoint(fn, h, {.mode = mode}) : fn(h);
      h.sum().backward();
      return TensorList{x.grad(), w.grad()};
    };
    NoLeaks guard;
    TensorList want = run(false), got = run(true);
    EXPECT_TRUE(same_bits(got[0], want[0]));
    EXPECT_TRUE(same_bits(got[1], want[1]));
  }
}

TEST(ManyCheckpoints, HoldThousandsOfOperationsInOne) {
  for (CheckpointMode mode : kModes) {
    auto fn = [](const Tensor& a) {
      Tensor h = a;
      for (int i = 0; i < many(); ++i) h = sin(h);
      return h;
    };
    NoLeaks guard;
    Tensor x = leaf({3});
    fn(x).sum().backward();
    Tensor want = x.grad();
    x.set_grad({});
    checkpoint(fn, x, {.mode = mode}).sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), want));
  }
}

// x^3, written by a user.
struct Cube : autograd::Function<Cube> {
  static constexpr const char* name = "cube";
  Tensor forward(const Tensor& x) {
    save(x);
    return x * x * x;
  }
  TensorList backward(const TensorList& dy) {
    Tensor x = saved(0);
    return {dy[0] * x * x * 3.0};
  }
};

TEST(Checkpoint, HoldsAFunctionOfTheUsers) {
  for (CheckpointMode mode : kModes) {
    Tensor x = leaf({4});
    auto fn = [](const Tensor& in) { return Cube::apply(sin(in)); };
    fn(x).sum().backward();
    Tensor want = x.grad();
    x.set_grad({});
    checkpoint(fn, x, {.mode = mode}).sum().backward();
    EXPECT_TRUE(same_bits(x.grad(), want));
  }
}

TEST(ManyCheckpoints, OfDisjointGraphsRunBackwardOnTwoThreads) {
  for (CheckpointMode mode : kModes) {
    auto work = [mode](uint64_t seed, bool with) {
      manual_seed(seed);
      Tensor x = leaf({32}, seed), h = x;
      auto fn = [](const Tensor& a) { return dropout(sin(square(a)), 0.2) + a; };
      for (int i = 0; i < 20; ++i) h = with ? checkpoint(fn, h, {.mode = mode}) : fn(h);
      h.sum().backward();
      return x.grad();
    };
    Tensor want[2] = {work(1, false), work(2, false)}, got[2];
    std::thread first([&] { got[0] = work(1, true); }), second([&] { got[1] = work(2, true); });
    first.join();
    second.join();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(same_bits(got[i], want[i]));
  }
}

TEST(ManyCheckpoints, OneRegionIsReplayedOnceForEachOfTwoThreadsPasses) {
  Tensor x = leaf({32});
  int calls = 0;
  manual_seed(1);
  auto fn = [&](const Tensor& a) { return ++calls, square(dropout(sin(a), 0.5)); };
  Tensor y = checkpoint(fn, x).sum(), got[2];
  auto pass = [&](int i) { got[i] = grad({y}, {x}, {}, {.retain_graph = true})[0]; };
  std::thread first(pass, 0), second(pass, 1);
  first.join();
  second.join();
  EXPECT_EQ(calls, 3);
  y.backward();
  for (const Tensor& dx : got) EXPECT_TRUE(same_bits(dx, x.grad()));
}

TEST(Nesting, AnInnerRegionGetsATensorThatTheOuterOneWasGivenAndCaptured) {
  Tensor x = leaf({6}), want = leaf({6});
  auto inner = [](const TensorList& in) { return sin(in[0] * in[1]); };
  sum(exp(inner({want, want}))).backward();
  for (CheckpointMode mode : testing::kModes) {
    x.set_grad({});
    // In the replay `in` is another tensor than x.
    auto outer = [&](const Tensor& in) { return exp(checkpoint(inner, {in, x}, {.mode = mode})); };
    sum(checkpoint(outer, x)).backward();
    EXPECT_TRUE(same_bits(x.grad(), want.grad())) << testing::name_of(mode);
  }
}

}  // namespace
}  // namespace reprise
