// Numbers held between tensors: values against loops, gradients against the rules of PyTorch's clamp.
#include "reprise/autograd/ops/elementwise/bounds.h"

#include <algorithm>
#include <cmath>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::test_device;
using Doubles = std::vector<double>;

TEST(ClampByTensors, PassesEveryCheckOfAnOp) {
  auto held = [](const TensorList& in, bool has_low, bool has_high) {
    Doubles x = in[0].to_vector<double>();
    const Doubles low = in[1].to_vector<double>(), high = in[2].to_vector<double>();
    for (size_t i = 0; i < x.size(); ++i) {
      if (has_low) x[i] = std::max(x[i], low[i % 5]);
      if (has_high) x[i] = std::min(x[i], high[i / 5]);
    }
    return x;
  };
  for (auto [has_low, has_high] : {std::pair{true, true}, {true, false}, {false, true}})
    check_op(
        OpCase{.name = detail::join("clamp by tensors ", has_low, has_high),
               .inputs = {{{3, 5}}, {{5}, -1.5, 0}, {{3, 1}, 0.25, 1.5}},
               .fn =
                   [l = has_low, h = has_high](const TensorList& in) {
                     const Tensor none;
                     return clamp(in[0], l ? in[1] : none, h ? in[2] : none) + in[1] * 0.0 + in[2] * 0.0;
                   },
               .reference = [=, l = has_low, h = has_high](const TensorList& in) { return held(in, l, h); },
               .empty_inputs = {{{0, 5}}, {{5}}, {{0, 1}}},
               .large_inputs = {{{301, 205}}, {{205}, -1, 0}, {{301, 1}, 0, 1}}});
}

// PyTorch 2.15's derivatives: to x where low <= x <= high; to low where x < low and low < high; to high where x > high or high < low.
TEST(ClampByTensors, HasTheGradientsThatPyTorchGives) {
  const double nan = std::nan("");
  struct Case {
    double x, low, high, value, of_x, of_low, of_high;
  };
  for (const Case& c : {Case{0, -1, 1, 0, 1, 0, 0},
                        {-2, -1, 1, -1, 0, 1, 0},
                        {2, -1, 1, 1, 0, 0, 1},
                        {-1, -1, 1, -1, 1, 0, 0},
                        {1, -1, 1, 1, 1, 0, 0},
                        {0, 1, -1, -1, 0, 0, 1},
                        {5, 1, -1, -1, 0, 0, 1},
                        {-5, 1, -1, -1, 0, 0, 1},
                        {0, 1, 1, 1, 0, 0, 0},
                        {2, 1, 1, 1, 0, 0, 1},
                        {1, 1, 1, 1, 1, 0, 0},
                        {nan, -1, 1, nan, 0, 0, 0},
                        {0, nan, 1, nan, 0, 0, 0},
                        {0, -1, nan, nan, 0, 0, 0}}) {
    SCOPED_TRACE(detail::join(c.x, " in ", c.low, ", ", c.high));
    auto leaf = [](double value) {
      return full({1}, value, DType::f64, test_device()).detach().set_requires_grad();
    };
    const Tensor x = leaf(c.x), low = leaf(c.low), high = leaf(c.high), y = clamp(x, low, high);
    if (std::isnan(c.value))
      EXPECT_TRUE(std::isnan(y.item()));
    else
      EXPECT_EQ(y.item(), c.value);
    const TensorList g = grad({sum(y)}, {x, low, high});
    EXPECT_EQ(g[0].item(), c.of_x);
    EXPECT_EQ(g[1].item(), c.of_low);
    EXPECT_EQ(g[2].item(), c.of_high);
  }
}

TEST(ClampByTensors, TakesOneBoundAndOtherDtypes) {
  const Tensor x = Tensor::from<int64_t>({-5, 3, 9}, {3}).to(test_device()),
               low = Tensor::from<int32_t>({0, 4, 0}, {3}).to(test_device()), none;
  EXPECT_EQ(clamp(x, low).to_vector<int64_t>(), (std::vector<int64_t>{0, 4, 9}));
  EXPECT_EQ(clamp(x, none, low).to_vector<int64_t>(), (std::vector<int64_t>{-5, 3, 0}));
  EXPECT_EQ(clamp(x, {}, low).dtype(), DType::i64);
  EXPECT_EQ(clamp(x, low.to(DType::f32) + 0.5).dtype(), DType::f32);
  EXPECT_EQ(clamp(scalar(1), zeros({2, 1}), ones({3})).shape(), (Shape{2, 3}));
  const Tensor w = ones({2}, DType::f64, test_device()).set_requires_grad();
  sum(clamp(zeros({2}, DType::f32, test_device()), w)).backward();
  EXPECT_EQ(w.grad().to_vector<double>(), (Doubles{1, 1}));
  expect_error([&] { clamp(x, none, none); }, "clamp: neither of the bounds is given");
  expect_error([&] { clamp(none, low); }, "clamp: tensor argument 0 is undefined");
  expect_error([&] { clamp(x, zeros({2}, DType::f32, test_device())); }, "clamp: ", "(3,)", "(2,)");
}

}  // namespace
}  // namespace reprise
