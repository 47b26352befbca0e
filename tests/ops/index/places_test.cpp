// index: rows and masks.
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

TEST(Index, OfRowsPassesEveryCheckOfAnOp) {
  const Tensor rows = Tensor::from<int64_t>({3, 0, 3, 1}, {2, 2});
  check_op(OpCase{
      .name = "index",
      .inputs = {{{4, 3}}, {.shape = {2, 2}, .requires_grad = false, .values = rows}},
      .fn = [](const TensorList& in) { return index(in[0], in[1]); },
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

TEST(Index, OfRowsAddsUpTheGradientsOfEqualOnes) {
  const Tensor x = counted({3, 2});
  x.set_requires_grad();
  const Tensor y = index(x, whole({2, 0, 2}, {3}));
  EXPECT_EQ(y.to_vector<float>(), (Floats{4, 5, 0, 1, 4, 5}));
  EXPECT_EQ(grad({sum(y)}, {x})[0].to_vector<float>(), (Floats{1, 1, 0, 0, 2, 2}));
  EXPECT_EQ(index(x, whole({1}, {1, 1, 1})).shape(), (Shape{1, 1, 1, 2}));
  EXPECT_EQ(index(x, whole({}, {0})).shape(), (Shape{0, 2}));
  EXPECT_EQ(index(counted({5}), whole({4}, {})).item(), 4);
}

TEST(Index, OfAMaskPicksElementsOrRows) {
  const Tensor x = counted({2, 3});
  x.set_requires_grad();
  const Tensor picked = index(x, x > 2.5);
  EXPECT_EQ(picked.to_vector<float>(), (Floats{3, 4, 5}));
  EXPECT_EQ(grad({sum(picked * picked)}, {x})[0].to_vector<float>(), (Floats{0, 0, 0, 6, 8, 10}));
  const Tensor rows = whole({0, 1}, {2}) > 0.5;
  EXPECT_EQ(index(x, rows).shape(), (Shape{1, 3}));
  EXPECT_EQ(index(x, rows).to_vector<float>(), (Floats{3, 4, 5}));
  EXPECT_EQ(index(x, x > 100.0).shape(), Shape{0});
  const Tensor deep = counted({2, 2, 2});
  EXPECT_EQ(index(deep, sum(deep, {2}) > 6.0).to_vector<float>(), (Floats{4, 5, 6, 7}));
}

TEST(Index, RefusesWhatIsNoIndex) {
  const Tensor x = counted({2, 3});
  expect_error([&] { index(x, counted({2})); }, "index: places must be i64 or bool, got f32");
  expect_error([&] { index(x, Tensor()); }, "index: tensor argument 1 is undefined");
  expect_error([&] { index(x, whole({2}, {1})).to_vector<float>(); }, "2");
  expect_error([&] { index(x, counted({3}) > 0.0); },
               "index: a mask of shape (3,) in a tensor of shape (2, 3)");
  expect_error(
      [&] {
        index(x, counted({2, 3, 1}) > 0.0);
      },
      "index: places of shape (2, 3, 1) in a tensor of shape (2, 3)");
}

}  // namespace
}  // namespace reprise
