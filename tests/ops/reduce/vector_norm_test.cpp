// Norms of all orders, against loops; their gradients at zeros, equal extremes and NaN as PyTorch has them.
#include "reprise/autograd/ops/reduce/vector_norm.h"

#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::test_device;
using Numbers = std::vector<double>;

double norm_of(const Numbers& values, double order) {
  double total = order == -INFINITY ? INFINITY : 0;
  for (double x : values) {
    const double size = std::abs(x);
    if (order == 0)
      total += size != 0;
    else if (std::isinf(order))
      total = order > 0 ? std::max(total, size) : std::min(total, size);
    else
      total += std::pow(size, order);
  }
  return order == 0 || std::isinf(order) ? total : std::pow(total, 1 / order);
}

// Of x (2, 3, 5): element i belongs to the group that is left of its place.
Numbers norms(const Tensor& x, double order, bool over_first, bool over_middle, bool over_last) {
  std::vector<Numbers> groups(size_t((over_first ? 1 : 2) * (over_middle ? 1 : 3) * (over_last ? 1 : 5)));
  const Numbers values = x.to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    size_t group = over_first ? 0 : i / 15;
    if (!over_middle) group = group * 3 + i / 5 % 3;
    if (!over_last) group = group * 5 + i % 5;
    groups[group].push_back(values[i]);
  }
  Numbers y;
  for (const Numbers& group : groups) y.push_back(norm_of(group, order));
  return y;
}

class VectorNorm : public ::testing::TestWithParam<double> {};

TEST_P(VectorNorm, PassesEveryCheckOfAnOpOverAnyDimensions) {
  const double order = GetParam();
  for (bool keep : {false, true}) {
    auto check_over = [&](const Dims& dims, bool first, bool middle, bool last) {
      check_op(OpCase{
          .name = detail::join("vector_norm of order ", order, " over ", dims, keep ? " kept" : ""),
          .inputs = {{.shape = {2, 3, 5}, .low = 0.2, .high = 2, .either_sign = true}},
          .fn = [&](const TensorList& in) { return vector_norm(in[0], order, dims, keep); },
          .reference = [&](const TensorList& in) { return norms(in[0], order, first, middle, last); },
          .roundings = 32,                       // a power multiplies the error of its base by its exponent
          .differentiable_twice = order != 0});  // a number of elements has no graph behind its gradient
    };
    check_over({}, true, true, true);
    check_over({-1}, false, false, true);
    check_over({0, 2}, true, false, true);
  }
}

INSTANTIATE_TEST_SUITE_P(OfOrder, VectorNorm,
                         ::testing::Values(0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, -1.0, -2.5, INFINITY,
                                           -INFINITY));

struct ValueAndGradient {
  double value;
  Numbers gradient;
};
ValueAndGradient at(const Numbers& numbers, double order) {
  const Tensor x =
      Tensor::from<double>(numbers, {int64_t(numbers.size())}).to(test_device()).detach().set_requires_grad();
  const Tensor y = vector_norm(x, order);
  y.backward();
  return {y.item(), x.grad().to_vector<double>()};
}

TEST(VectorNorm, HasTheGradientZeroAtZeros) {
  for (double order : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, -1.0, double(INFINITY), -double(INFINITY)}) {
    SCOPED_TRACE(order);
    const auto [value, gradient] = at({0, 0, 0}, order);
    EXPECT_EQ(value, 0);
    EXPECT_EQ(gradient, Numbers(3, 0.0));
  }
  EXPECT_EQ(at({3, 0, -4}, 0).value, 2);
  EXPECT_EQ(at({3, 0, -4}, 0).gradient, Numbers(3, 0.0));
  EXPECT_EQ(at({3, 0, -4}, 1).gradient, (Numbers{1, 0, -1}));
  EXPECT_EQ(at({4, 0, -4}, 0.5).value, 16);
  EXPECT_EQ(at({4, 0, -4}, 0.5).gradient, (Numbers{2, 0, -2}));  // sqrt(norm / x)
  EXPECT_EQ(at({2, 0, -2}, -1).value, 0);
  EXPECT_EQ(at({2, 0, -2}, -1).gradient, Numbers(3, 0.0));
  EXPECT_EQ(at({2, 0, -1}, -INFINITY).gradient, Numbers(3, 0.0));
}

TEST(VectorNorm, SharesTheGradientBetweenEqualExtremes) {
  EXPECT_EQ(at({2, -2, 1}, INFINITY).gradient, (Numbers{0.5, -0.5, 0}));
  EXPECT_EQ(at({2, -1, 1}, -INFINITY).gradient, (Numbers{0, -0.5, 0.5}));
}

TEST(VectorNorm, KeepsNanAndInfinities) {
  for (double order : {0.5, 1.0, 2.0, 3.0, -1.0, double(INFINITY), -double(INFINITY)}) {
    SCOPED_TRACE(order);
    EXPECT_TRUE(std::isnan(at({1, NAN, 0}, order).value));
    EXPECT_EQ(at({-INFINITY, -INFINITY}, order).value, INFINITY);
  }
  EXPECT_EQ(at({1, NAN, 0}, 0).value, 2);
  EXPECT_EQ(at({INFINITY, 1}, -1).value, 1);
}

TEST(VectorNorm, OfNothingIsZeroWhereItIsAnything) {
  const Tensor none = zeros({0, 3});
  for (double order : {0.0, 0.5, 1.0, 2.0, 3.0}) {
    EXPECT_EQ(vector_norm(none, order).item(), 0);
    EXPECT_EQ(vector_norm(none, order, {0}).to_vector<double>(), Numbers(3, 0.0));
  }
  for (double order : {-1.0, double(INFINITY), -double(INFINITY)}) {
    EXPECT_EQ(vector_norm(none, order, {1}).shape(), Shape{0});
    expect_error([&] { vector_norm(none, order); }, "vector_norm: of order ",
                 "of no elements, in shape (0, 3)");
    expect_error([&] { vector_norm(none, order, {0}); }, "vector_norm", "of no elements");
  }
}

TEST(VectorNorm, TakesFloatingDtypesAndIsF32UnderAutocast) {
  expect_error([] { vector_norm(ones({3}, DType::i64)); }, "vector_norm", "i64");
  expect_error([] { vector_norm(ones({3}), NAN); }, "vector_norm: the order is NaN");
  expect_error([] { vector_norm(ones({3}), 3, {1}); }, "dimension 1");
  EXPECT_EQ(vector_norm(full({4}, 300, DType::f16), 4).item(), 424.25);  // 300 sqrt(2), in steps of 1 / 4
  amp::Autocast scope(test_device(), DType::bf16);
  EXPECT_EQ(vector_norm(ones({3}, DType::bf16, test_device()), 3).dtype(), DType::f32);
}

}  // namespace
}  // namespace reprise
