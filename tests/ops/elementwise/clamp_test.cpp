// Numbers held between two bounds.
#include <cmath>
#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Clamp, PassesEveryCheckOfAnOp) {
  using Bound = std::optional<double>;
  for (auto [low, high] : {std::pair<Bound, Bound>{-0.75, 0.8125}, {-kInfinity, 0.5}, {{}, 0.5}, {-0.5, {}}})
    check_op(OpCase{.name = detail::join("clamp to ", low.value_or(-9), " and ", high.value_or(9)),
                    .inputs = {{{3, 5}}},
                    .fn = [l = low, h = high](const TensorList& in) { return clamp(in[0], l, h); },
                    .reference =
                        [l = low, h = high](const TensorList& in) {
                          std::vector<double> values = in[0].to_vector<double>();
                          for (double& x : values) x = std::min(std::max(x, l.value_or(-9)), h.value_or(9));
                          return values;
                        },
                    .roundings = 1,
                    .empty_inputs = {{{3, 0}}},
                    .large_inputs = {{{101, 203}}}});
}

TEST(Clamp, PassesTheGradientOnAtItsBoundsAndKeepsNan) {
  Tensor x = Tensor::from<float>({-2, -1, 0, 1, 2, float(std::nan(""))}, {6}).set_requires_grad();
  Tensor y = clamp(x, -1, 1);
  EXPECT_TRUE(std::isnan(y.to_vector<double>()[5]));
  y.sum().backward();
  EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 1, 1, 1, 0, 0}));
}

// As PyTorch 2.15: all elements are NaN, and none gets a gradient.
TEST(Clamp, ByABoundThatIsNanIsNan) {
  using Bound = std::optional<double>;
  const double nan = std::nan("");
  for (auto [low, high] : {std::pair<Bound, Bound>{nan, 1}, {-1, nan}, {nan, {}}, {{}, nan}}) {
    const Tensor x = Tensor::from<float>({-2, 0, 2}, {3}).set_requires_grad();
    const Tensor y = clamp(x, low, high);
    for (double value : y.to_vector<double>()) EXPECT_TRUE(std::isnan(value));
    y.sum().backward();
    EXPECT_EQ(x.grad().to_vector<double>(), (std::vector<double>{0, 0, 0}));
  }
}

// As PyTorch: a bound that is not given is none, and the upper one wins.
TEST(Clamp, TakesOneBoundAndIntegers) {
  const Tensor x = Tensor::from<int64_t>({-5, 3, 9}, {3});
  auto is = [](const Tensor& y, const std::vector<int64_t>& want) {
    EXPECT_EQ(y.to_vector<int64_t>(), want);
  };
  is(clamp(x, 0, 7), {0, 3, 7});
  is(clamp(x, {}, 4), {-5, 3, 4});
  is(clamp(x, 4), {4, 4, 9});
  is(clamp(x, 8, 2), {2, 2, 2});
  const Tensor changed = x.clone();
  changed.clamp_({}, 4);
  is(changed, {-5, 3, 4});
}

TEST(Clamp, RefusesBoundsThatDoNotFit) {
  expect_error([] { clamp(zeros({2}), {}); }, "clamp: neither of the bounds is given");
  expect_error([] { clamp(zeros({2}, DType::i64), 0, std::nan("")); }, "clamp: nan is not a whole number");
  expect_error([] { clamp(zeros({2}, DType::i64), 0, 0.5); }, {"clamp", "0.5", "whole"});
}

}  // namespace
}  // namespace reprise
