// A user's own Function: several outputs, absent inputs, lists, refusals.
#include "reprise/autograd/function.h"

#include "reprise/autograd/engine.h"
#include "reprise/autograd/gradcheck.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using autograd::Function;
using testing::expect_error;

Tensor leaf(std::vector<double> values) {
  int64_t count = int64_t(values.size());
  return Tensor::from(values, {count}).set_requires_grad();
}

// The example of function.h.
struct Cube : Function<Cube> {
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

TEST(Function, WrittenWithDifferentiableOpsDifferentiatesTwice) {
  auto fn = [](const TensorList& in) { return TensorList{Cube::apply(in[0])}; };
  EXPECT_TRUE(gradcheck(fn, {leaf({1, -2, 3})}));
  EXPECT_TRUE(gradgradcheck(fn, {leaf({1, -2, 3})}));
}

TEST(Function, RecordsNothingWithoutNeed) {
  int64_t nodes = autograd::live_nodes();
  Tensor y = Cube::apply(zeros({2}));
  EXPECT_FALSE(y.requires_grad());
  NoGrad guard;
  EXPECT_FALSE(Cube::apply(leaf({1})).requires_grad());
  EXPECT_EQ(autograd::live_nodes(), nodes);
}

struct SumAndProduct : Function<SumAndProduct> {
  static constexpr const char* name = "sum_and_product";
  TensorList forward(const Tensor& a, const Tensor& b) {
    save(a, b);
    return {a + b, a * b};
  }
  TensorList backward(const TensorList& dy) {
    EXPECT_TRUE(dy[0].defined() && dy[1].defined());
    return {dy[0] + dy[1] * saved(1), dy[0] + dy[1] * saved(0)};
  }
};

TEST(Function, ReturnsSeveralOutputs) {
  auto fn = [](const TensorList& in) { return SumAndProduct::apply(in[0], in[1]); };
  EXPECT_TRUE(gradcheck(fn, {leaf({1, 2}), leaf({3, 5})}));
  EXPECT_TRUE(gradgradcheck(fn, {leaf({1, 2}), leaf({3, 5})}));
}

TEST(Function, SeesZerosForOutputsWithoutAGradient) {
  Tensor a = leaf({2}), b = leaf({7});
  SumAndProduct::apply(a, b)[1].backward();
  EXPECT_EQ(a.grad().item(), 7);
  Tensor c = leaf({2}), d = leaf({7});
  SumAndProduct::apply(c, d)[0].backward();
  EXPECT_EQ(c.grad().item(), 1);
}

// a + scale * sum of the list, with an optional tensor added.
struct AddAll : Function<AddAll> {
  static constexpr const char* name = "add_all";
  size_t count_ = 0;
  double scale_ = 1;
  bool has_extra_ = false;
  Tensor forward(const Tensor& extra, const TensorList& parts, double scale) {
    count_ = parts.size();
    scale_ = scale;
    has_extra_ = extra.defined();
    Tensor y = parts[0] * scale;
    for (size_t i = 1; i < parts.size(); ++i) y = y + parts[i] * scale;
    return has_extra_ ? y + extra : y;
  }
  TensorList backward(const TensorList& dy) {
    EXPECT_EQ(needs_grad(0), has_extra_);
    TensorList grads{has_extra_ ? dy[0] : Tensor()};
    for (size_t i = 0; i < count_; ++i) grads.push_back(dy[0] * scale_);
    return grads;
  }
};

TEST(Function, TakesListsOptionalTensorsAndPlainValues) {
  for (bool with_extra : {false, true}) {
    TensorList parts = {leaf({1}), leaf({2}), zeros({1}, DType::f64)};
    Tensor extra = with_extra ? leaf({5}) : Tensor();
    Tensor y = AddAll::apply(extra, parts, 3.0);
    EXPECT_EQ(y.item(), with_extra ? 14 : 9);
    y.backward();
    EXPECT_EQ(parts[0].grad().item(), 3);
    EXPECT_EQ(parts[1].grad().item(), 3);
    EXPECT_FALSE(parts[2].grad().defined());
    if (with_extra) { EXPECT_EQ(extra.grad().item(), 1); }
  }
}

struct Stop : Function<Stop> {
  static constexpr const char* name = "stop";
  Tensor forward(const Tensor& x) { return x * 1.0; }
  TensorList backward(const TensorList&) { return {Tensor()}; }
};

TEST(Function, StopsTheGradientWhereBackwardReturnsNone) {
  Tensor x = leaf({2});
  (Stop::apply(x * 3.0) + x).backward();
  EXPECT_EQ(x.grad().item(), 1);
}

struct TooMany : Function<TooMany> {
  static constexpr const char* name = "too_many";
  Tensor forward(const Tensor& x) { return x * 1.0; }
  TensorList backward(const TensorList& dy) { return {dy[0], dy[0]}; }
};

struct WrongShape : Function<WrongShape> {
  static constexpr const char* name = "wrong_shape";
  Tensor forward(const Tensor& x) { return x * 1.0; }
  TensorList backward(const TensorList& dy) { return {sum(dy[0])}; }
};

struct WrongDtype : Function<WrongDtype> {
  static constexpr const char* name = "wrong_dtype";
  Tensor forward(const Tensor& x) { return x * 1.0; }
  TensorList backward(const TensorList& dy) { return {dy[0].to(DType::f32)}; }
};

TEST(Function, RefusesABackwardThatDoesNotFit) {
  Tensor x = leaf({2, 3});
  expect_error([&] { TooMany::apply(x).sum().backward(); }, {"too_many", "2 gradients for 1"});
  expect_error([&] { WrongShape::apply(x).sum().backward(); }, {"wrong_shape", "argument 0", "(2,)"});
  expect_error([&] { WrongDtype::apply(x).sum().backward(); }, {"wrong_dtype", "f32", "f64"});
}

struct Same : Function<Same> {
  static constexpr const char* name = "same";
  Tensor forward(const Tensor& x) { return x; }
  TensorList backward(const TensorList& dy) { return dy; }
};

TEST(Function, RefusesToReturnItsInputItself) {
  for (const Tensor& x : {leaf({1}), zeros({1})})
    expect_error([&] { Same::apply(x); }, {"same", "one of its inputs", "alias"});
}

struct SortOfSplit : Function<SortOfSplit> {
  static constexpr const char* name = "sort_of_split";
  TensorList forward(const Tensor& x) { return {x.alias(x.view()), argmax(x, -1)}; }
  TensorList backward(const TensorList& dy) { return {dy[0] * 2.0}; }
};

TEST(Function, MayReturnAViewAndIntegersBesideFloats) {
  Tensor x = leaf({2, 9, 3});
  TensorList y = SortOfSplit::apply(x);
  EXPECT_FALSE(y[1].requires_grad());
  EXPECT_EQ(y[1].item(), 1);
  y[0].sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{2, 2, 2}));
}

struct Sigmoid : Function<Sigmoid> {
  static constexpr const char* name = "my_sigmoid";
  Tensor forward(const Tensor& x) {
    Tensor e = exp(-x), y = 1.0 / (e + 1.0);
    save(e, y, Tensor());
    return y;
  }
  TensorList backward(const TensorList& dy) {
    EXPECT_FALSE(saved(2).defined());
    return {dy[0] * saved(0) * square(saved(1))};
  }
};

TEST(Function, SavesIntermediatesAndOutputs) {
  int64_t nodes = autograd::live_nodes();
  EXPECT_TRUE(
      gradcheck([](const TensorList& in) { return TensorList{Sigmoid::apply(in[0])}; }, {leaf({0.5, -1})}));
  EXPECT_EQ(autograd::live_nodes(), nodes);
}

// x^2, nothing, and x^3.
struct Gaps : Function<Gaps> {
  static constexpr const char* name = "gaps";
  TensorList forward(const Tensor& x) {
    save(x);
    return {x * x, Tensor(), x * x * x};
  }
  TensorList backward(const TensorList& dy) {
    EXPECT_TRUE(dy[0].defined() && !dy[1].defined() && dy[2].defined());
    Tensor x = saved(0);
    return {dy[0] * x * 2.0 + dy[2] * x * x * 3.0};
  }
};

struct Nothing : Function<Nothing> {
  static constexpr const char* name = "nothing";
  Tensor forward(const Tensor&) { return {}; }
  TensorList backward(const TensorList&) { return {Tensor()}; }
};

TEST(Function, MayReturnNothingInThePlaceOfAnOutput) {
  auto fn = [](const TensorList& in) { return Gaps::apply(in[0]); };
  EXPECT_TRUE(gradcheck(fn, {leaf({1, -2, 3})}));
  EXPECT_TRUE(gradgradcheck(fn, {leaf({1, -2, 3})}));
  Tensor x = leaf({2});
  TensorList y = Gaps::apply(x);
  EXPECT_FALSE(y[1].defined());
  y[2].backward();  // zeros for the first, still nothing for the second
  EXPECT_EQ(x.grad().item(), 12);
  EXPECT_FALSE(Nothing::apply(x).defined());
}

struct SameTwice : Function<SameTwice> {
  static constexpr const char* name = "same_twice";
  TensorList forward(const Tensor& x) {
    Tensor y = x * 1.0;
    return {y, y};
  }
  TensorList backward(const TensorList& dy) { return {dy[0] + dy[1]}; }
};

struct Captured : Function<Captured> {
  static constexpr const char* name = "captured";
  Tensor forward(const Tensor&, std::shared_ptr<Tensor> captured) { return *captured; }
  TensorList backward(const TensorList& dy) { return {dy[0]}; }
};

TEST(Function, RefusesOutputsThatCannotBeItsOwn) {
  Tensor x = leaf({1}), weight = leaf({2});
  for (bool recording : {true, false}) {
    autograd::GradMode mode(recording);
    expect_error([&] { SameTwice::apply(x); }, {"same_twice", "outputs 0 and 1"});
    expect_error([&] { Captured::apply(x, std::make_shared<Tensor>(weight)); }, {"captured", "graph"});
  }
  EXPECT_TRUE(weight.is_leaf());
}

struct Careless : Function<Careless> {
  static constexpr const char* name = "careless";
  bool in_backward_ = false;
  Tensor forward(const Tensor& x, const Tensor& extra, bool in_backward) {
    in_backward_ = in_backward;
    save(x);
    return in_backward ? x * 1.0 : x.alias(extra.view());
  }
  TensorList backward(const TensorList& dy) {
    Tensor nothing;
    return {nothing.contiguous() * dy[0], Tensor()};
  }
};

struct AsksForTooMuch : Function<AsksForTooMuch> {
  static constexpr const char* name = "asks_for_too_much";
  Tensor forward(const Tensor& x) {
    save(x);
    return x * 1.0;
  }
  TensorList backward(const TensorList& dy) { return {dy[0] * saved(3)}; }
};

TEST(Function, IsNamedByTheErrorsOfItsForwardAndBackward) {
  Tensor x = leaf({1});
  expect_error([&] { Careless::apply(x, Tensor(), false); },
               {"careless: ", "before it was given a value", "tensor arguments: 1"});
  Tensor y = Careless::apply(x, Tensor(), true);
  expect_error([&] { y.backward(); }, {"careless: ", "contiguous", "never given a value"});
  expect_error([&] { AsksForTooMuch::apply(x).backward(); },
               {"asks_for_too_much", "saved(3)", "saved 1 tensors"});
}

}  // namespace
}  // namespace reprise
