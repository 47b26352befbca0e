// Bodies that do more than their results show: what they do is not left out of a replay.
#include "reprise/tests/autograd/recompute/counted_ops.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using testing::leaf;
using testing::numbers;
using testing::runs;
using testing::same_bits;
using testing::Square;
using testing::Times;

// Compares the gradient of sum(fn(x)) with that through checkpoints of many policies.
void expect_same_gradient(const std::function<Tensor(const Tensor&)>& fn) {
  Tensor want = leaf({6}), x = leaf({6});
  sum(fn(want)).backward();
  Policy all([](const PolicyOp&) { return Decision::save; });
  for (const Policy& policy :
       {Policy(), all, Policy{"affine"}, Policy{"exp"}, Policy{"add"}, Policy{"sin"}}) {
    x.set_grad({});
    sum(checkpoint(fn, x, {.policy = policy})).backward();
    EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  }
}

// Halves its argument in place, and gives one number.
struct Halve : autograd::Function<Halve> {
  static constexpr const char* name = "halve";
  Tensor forward(const Tensor& x) {
    x.mul_(0.5);
    return Tensor::zeros({1}, x.dtype(), x.device());
  }
  TensorList backward(const TensorList&) { return {Tensor()}; }
};

TEST(LeftOut, NotAnOperationThatChangesItsArgument) {
  Tensor scale = numbers({6}, 4);
  expect_same_gradient([&](const Tensor& in) {
    Tensor weights = scale * 2.0;
    Halve::apply(weights);
    return square(exp(in) * weights);
  });
  expect_same_gradient([&](const Tensor& in) {
    Tensor weights = Tensor::zeros({6}, DType::f32, in.device());
    weights.copy_(scale);
    Halve::apply(weights);
    return square(exp(in) * weights);
  });
}

// exp(x), and nothing.
struct Maybe : autograd::Function<Maybe> {
  static constexpr const char* name = "maybe";
  TensorList forward(const Tensor& x) { return {exp(x), Tensor()}; }
  TensorList backward(const TensorList& dy) { return {dy[0]}; }
};

TEST(LeftOut, NotAnOperationWithAnUndefinedResult) {
  Tensor scale = numbers({6}, 4);
  expect_same_gradient([&](const Tensor& in) {
    TensorList both = Maybe::apply(scale);  // outside of the graph, where that is allowed
    EXPECT_FALSE(both[1].defined());
    return square(sin(in) * both[0]);
  });
}

// Its first number, by a body that takes whatever is thrown for a missing one.
double first_or_minus_one(const Tensor& a, int& caught) {
  try {
    return a.to_vector<float>()[0];
  } catch (...) {
    ++caught;
    return -1;
  }
}

TEST(LeftOut, NothingWhereTheBodyCatchesWhatReadingItThrows) {
  int caught = 0;
  expect_same_gradient([&](const Tensor& in) {
    const double value = first_or_minus_one(exp(in) * 2.0, caught);
    return square(sin(exp(in * value)) * value);
  });
  EXPECT_GT(caught, 0);
}

TEST(LeftOut, NothingWhereTheBodyOfARegionInsideDependsOnIt) {
  int caught = 0;
  expect_same_gradient([&](const Tensor& in) {
    const double value = first_or_minus_one(exp(in) * 2.0, caught);
    return square(checkpoint([=](const Tensor& h) { return sin(exp(h * value)) * value; }, in));
  });
  EXPECT_GT(caught, 0);
}

TEST(LeftOut, IsReadUnseenByABodyThatCatchesErrors) {
  int caught = 0;
  expect_same_gradient([&](const Tensor& in) {
    Tensor a = exp(in) * 2.0;
    double value = -1;
    try {
      value = a.to_vector<float>()[0];
    } catch (const std::exception&) { ++caught; }
    return square(sin(exp(in * value)) * value);
  });
  EXPECT_EQ(caught, 0);
}

TEST(LeftOut, IsAnErrorForWhoeverReadsItAfterTheReplay) {
  Tensor x = leaf({6}), inner;
  Tensor y = checkpoint(
      [&](const Tensor& in) {
        inner = in + in;
        return square(inner * 2.0) + sin(in);
      },
      x, {.policy = {"affine"}});
  sum(y).backward();
  ASSERT_TRUE(inner.is_hollow());
  testing::expect_error([&] { inner.to_vector<float>(); }, {"hollow"});
}

TEST(LeftOut, NothingThatABackwardInsideTheBodyGoesThrough) {
  expect_same_gradient([](const Tensor& in) {
    Tensor at = in.detach().set_requires_grad();
    Tensor part = at * 3.0;  // saves nothing, and what it gives is kept by some policies
    Tensor y = part + at;
    Tensor slope = autograd::grad({sum(y)}, {at})[0];
    return exp(sin(in * slope) * y.detach());
  });
}

TEST(LeftOut, NothingWithoutAPolicy) {
  Tensor x = leaf({5}), w = leaf({5}, 2);
  auto fn = [&](const Tensor& in) {
    Tensor a = sin(in);
    {
      NoGrad guard;
      Times<'a'>::apply(in, w);
    }
    return exp(sin(a));
  };
  for (bool early_stop : {true, false}) {
    runs().clear();
    sum(checkpoint(fn, x, {.early_stop = early_stop})).backward();
    EXPECT_EQ(runs()["a"], 2);
  }
}

// 2 x, of which backward reads a copy that forward made.
struct Twice : autograd::Function<Twice> {
  static constexpr const char* name = "twice";
  Tensor forward(const Tensor& x) {
    save(full(x.shape(), 2, x.dtype(), x.device()));
    return x * 2.0;
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(0)}; }
};

TEST(LeftOut, WhatIsKeptWhereTheNextOperationSavesSomethingOfItsOwn) {
  Tensor x = leaf({5}), w = leaf({5}, 2);
  runs().clear();
  auto fn = [&](const Tensor& in) { return Twice::apply(Times<'a'>::apply(in, w)); };
  sum(checkpoint(fn, x, {.policy = {"a"}})).backward();
  EXPECT_EQ(runs()["a"], 1);
}

TEST(LeftOut, NothingWhereTheLastArgumentOfWhatIsKeptHasAnotherShape) {
  Tensor x = leaf({5}), wide = numbers({5}, 2), narrow = numbers({1}, 3);
  auto fn = [&](const Tensor& in) { return sin(exp(sin(in) + (recompute::is_replaying() ? narrow : wide))); };
  sum(checkpoint(fn, x, {.determinism = Determinism::none, .policy = {"add"}})).backward();
  // Backward of exp reads the sum that was kept, backward of sin what the replay made.
  NoGrad guard;
  Tensor want = cos(exp(sin(x) + narrow)) * exp(sin(x) + wide) * cos(x);
  EXPECT_TRUE(same_bits(x.grad(), want));
}

// 2 x^2 for positive x: backward reads what an operation inside of it gave.
struct AroundSquare : autograd::Function<AroundSquare> {
  static constexpr const char* name = "around_square";
  Tensor forward(const Tensor& x) {
    Tensor y = Square::apply(x);
    save(y);
    return y * 2.0;
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * sqrt(saved(0)) * 4.0}; }
};

TEST(LeftOut, NotAnOperationInsideOfOneThatRunsForWhatItSaves) {
  auto fn = [](const Tensor& in) { return AroundSquare::apply(exp(in)) + 1.0; };
  Tensor x = leaf({5}), want = leaf({5});
  sum(fn(want)).backward();
  runs().clear();
  sum(checkpoint(fn, x, {.policy = {"exp"}})).backward();
  EXPECT_TRUE(same_bits(x.grad(), want.grad()));
  EXPECT_EQ(runs()["for what it saves"], 0);
}

}  // namespace
}  // namespace reprise
