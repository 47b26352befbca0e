// x[i], x[rows] and x[mask].
#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::test_device;
using Floats = std::vector<float>;

Tensor counted(const Shape& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return reshape(arange(count, DType::f32, test_device()), shape);
}
Tensor whole(const std::vector<int64_t>& values, const Shape& shape) {
  return Tensor::from<int64_t>(values, shape).to(test_device());
}

TEST(Subscript, OfANumberIsAViewOfAnElement) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(x[1].to_vector<float>(), (Floats{3, 4, 5}));
  EXPECT_EQ(x[-1][0].item(), 3);
  x[0][1].fill_(9);
  x[1].copy_(x[0]);
  EXPECT_EQ(x.to_vector<float>(), (Floats{0, 9, 2, 0, 9, 2}));
  static_assert(!std::is_assignable_v<decltype(x[0]), Tensor>, "x[0] = y would change nothing");
  expect_error([&] { x[2]; }, "select", "2");
  expect_error([&] { scalar(1)[0]; }, "[]: a number has no elements");
  expect_error([&] { Tensor()[0]; }, "[]");
}

TEST(Subscript, OfRowsPassesEveryCheckOfAnOp) {
  const Tensor rows = Tensor::from<int64_t>({3, 0, 3, 1}, {2, 2});
  check_op(OpCase{
      .name = "x[rows]",
      .inputs = {{{4, 3}}, {.shape = {2, 2}, .requires_grad = false, .values = rows}},
      .fn = [](const TensorList& in) { return in[0][in[1]]; },
      .reference =
          [](const TensorList& in) {
            const auto x = in[0].to_vector<double>();
            std::vector<double> y;
            for (int64_t row : in[1].to_vector<int64_t>())
              for (int64_t c = 0; c < 3; ++c) y.push_back(x[size_t(row * 3 + c)]);
            return y;
          },
  });
}

TEST(Subscript, OfRowsAddsUpTheGradientsOfEqualOnes) {
  const Tensor x = counted({3, 2});
  x.set_requires_grad();
  const Tensor y = x[whole({2, 0, 2}, {3})];
  EXPECT_EQ(y.to_vector<float>(), (Floats{4, 5, 0, 1, 4, 5}));
  EXPECT_EQ(grad({sum(y)}, {x})[0].to_vector<float>(), (Floats{1, 1, 0, 0, 2, 2}));
  EXPECT_EQ(x[whole({1}, {1, 1, 1})].shape(), (Shape{1, 1, 1, 2}));
  EXPECT_EQ(x[whole({}, {0})].shape(), (Shape{0, 2}));
  EXPECT_EQ(counted({5})[whole({4}, {})].item(), 4);
}

TEST(Subscript, OfAMaskPicksElementsOrRows) {
  const Tensor x = counted({2, 3});
  x.set_requires_grad();
  const Tensor picked = x[x > 2.5];
  EXPECT_EQ(picked.to_vector<float>(), (Floats{3, 4, 5}));
  EXPECT_EQ(grad({sum(picked * picked)}, {x})[0].to_vector<float>(), (Floats{0, 0, 0, 6, 8, 10}));
  const Tensor rows = whole({0, 1}, {2}) > 0.5;
  EXPECT_EQ(x[rows].shape(), (Shape{1, 3}));
  EXPECT_EQ(x[rows].to_vector<float>(), (Floats{3, 4, 5}));
  EXPECT_EQ(x[x > 100.0].shape(), Shape{0});
  const Tensor deep = counted({2, 2, 2});
  EXPECT_EQ(deep[sum(deep, {2}) > 6.0].to_vector<float>(), (Floats{4, 5, 6, 7}));
}

TEST(Subscript, RefusesWhatIsNoIndex) {
  const Tensor x = counted({2, 3});
  expect_error([&] { x[counted({2})]; }, "[]: an index must be i64 or bool, got f32");
  expect_error([&] { x[Tensor()]; }, "[]: the index is undefined");
  expect_error([&] { x[whole({2}, {1})].to_vector<float>(); }, "2");
  expect_error([&] { x[counted({3}) > 0.0]; }, "[]: a mask of shape (3,) for a tensor of shape (2, 3)");
  expect_error(
      [&] {
        x[counted({2, 3, 1}) > 0.0];
      },
      "[]: an index of shape (2, 3, 1) for a tensor of shape (2, 3)");
}

}  // namespace
}  // namespace reprise
