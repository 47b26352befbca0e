// a += b and its like: in place outside of graphs, a new value within one.
#include "reprise/autograd/ops/elementwise/assign.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::test_device;
using Floats = std::vector<float>;

Tensor numbers(const Floats& values) {
  return Tensor::from<float>(values, {int64_t(values.size())}).to(test_device());
}

TEST(Assign, WritesInPlaceOutsideOfGraphs) {
  Tensor x = numbers({1, 2, 3, 4}), same = x, part = x.slice(0, 1, 3);
  const Tensor y = numbers({10, 20, 30, 40});
  x += y;
  EXPECT_EQ(same.to_vector<float>(), (Floats{11, 22, 33, 44}));
  x -= y;
  x *= y;
  EXPECT_EQ(same.to_vector<float>(), (Floats{10, 40, 90, 160}));
  x /= y;
  x += 1.0;
  x *= 4.0;
  x -= 2.0;
  x /= 2.0;
  EXPECT_EQ(same.to_vector<float>(), (Floats{3, 5, 7, 9}));
  part += numbers({1});  // a view, and b broadcasts
  EXPECT_EQ(x.to_vector<float>(), (Floats{3, 6, 8, 9}));
  const uint64_t before = x.version();
  x *= x;
  EXPECT_GT(x.version(), before);
  EXPECT_EQ(same.to_vector<float>(), (Floats{9, 36, 64, 81}));
}

TEST(Assign, KeepsTheDtypeOfItsLeftSide) {
  Tensor half = numbers({1, 2}).to(DType::bf16);
  half += numbers({0.5, 0.25});
  EXPECT_EQ(half.dtype(), DType::bf16);
  EXPECT_EQ(half.to_vector<float>(), (Floats{1.5, 2.25}));
  Tensor whole = numbers({1, 2}).to(DType::i64);
  whole += numbers({3, 4}).to(DType::i32);
  EXPECT_EQ(whole.to_vector<int64_t>(), (std::vector<int64_t>{4, 6}));
  expect_error([&] { whole += numbers({1, 2}); }, "+=: the result of i64 and f32 does not fit in i64");
  expect_error([&] { whole *= 0.5; }, "0.5");
  expect_error([&] { whole /= 2; }, "/=: the result, f32, does not fit in i64");
  expect_error([&] { whole /= whole; }, "/=: the result, f32, does not fit in i64");
}

TEST(Assign, TakesALeafUnderNoGradAlone) {
  Tensor weight = numbers({1, 2}), gradient = numbers({10, 20});
  weight.set_requires_grad();
  expect_error([&] { weight -= gradient * 0.1; },
               "-=: a leaf that requires grad is changed under NoGrad alone");
  {
    NoGrad guard;
    weight -= gradient * 0.5;
  }
  EXPECT_EQ(weight.to_vector<float>(), (Floats{-4, -8}));
  EXPECT_TRUE(weight.is_leaf() && weight.requires_grad());
}

TEST(Assign, IsPartOfTheGraphWhereOneIsRecorded) {
  const Tensor x = numbers({1, 2});
  x.set_requires_grad();
  Tensor loss = sum(x * x);
  const Tensor old = loss;
  loss += sum(x) * 3.0;  // 2 x + 3
  loss *= 2.0;
  loss /= sum(x).detach();  // 3
  EXPECT_EQ(old.item(), 5);
  EXPECT_NEAR(loss.item(), (5 + 9) * 2 / 3.0, 1e-5);
  loss.backward();
  EXPECT_NEAR(x.grad().to_vector<float>()[0], 5 * 2 / 3.0, 1e-5);
  EXPECT_NEAR(x.grad().to_vector<float>()[1], 7 * 2 / 3.0, 1e-5);
  Tensor total = numbers({0, 0});  // the other side alone requires grad
  total += x;
  total -= x * 2.0;
  EXPECT_TRUE(total.requires_grad());
  EXPECT_EQ(total.to_vector<float>(), (Floats{-1, -2}));
}

TEST(Assign, RefusesWhatWouldChangeTheShape) {
  Tensor x = numbers({1, 2});
  expect_error(
      [&] {
        x += ones({3, 2}, DType::f32, test_device());
      },
      "+=: (3, 2) does not broadcast to (2,)");
  expect_error([&] { x /= ones({3}, DType::f32, test_device()); }, "/=");
  expect_error([&] { x += Tensor(); }, "+=: tensor argument 1 is undefined");
  Tensor none;
  expect_error([&] { none *= 2.0; }, "*=: tensor argument 0 is undefined");
  Tensor expanded = expand(numbers({1}), {4});
  expect_error([&] { expanded += 1.0; }, "expanded");
}

}  // namespace
}  // namespace reprise
