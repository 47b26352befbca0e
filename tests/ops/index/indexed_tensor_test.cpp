// x[...] = y, x[...] += y: against loops, and against what NumPy and PyTorch say of places that stand there twice and of copies.
#include <utility>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/assign.h"
#include "reprise/autograd/ops/elementwise/bounds.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::expect_error;
using testing::test_device;
using Floats = std::vector<float>;

Tensor counted(const Shape& shape) {
  return reshape(arange(numel_of(shape), DType::f32, test_device()), shape);
}
Tensor row(const Floats& values) { return Tensor::from(values, {int64_t(values.size())}).to(test_device()); }
Tensor rows(const std::vector<int64_t>& values) {
  return Tensor::from(values, {int64_t(values.size())}).to(test_device());
}
void expect(const Tensor& x, const Floats& values) { EXPECT_EQ(x.to_vector<float>(), values); }

TEST(IndexedTensor, AssignsNumbersAndTensorsInPlace) {
  const Tensor x = counted({2, 3}), view = x.reshape({6});
  x[0] = 9;
  expect(x, {9, 9, 9, 3, 4, 5});
  x[{1, Slice(1, {})}] = row({-1, -2});
  expect(x, {9, 9, 9, 3, -1, -2});
  x[{ellipsis, 0}] = row({7});  // broadcasts
  expect(x, {7, 9, 9, 7, -1, -2});
  x[x < 0] = 0.5;
  expect(x, {7, 9, 9, 7, 0.5, 0.5});
  x[1] = x[0];
  expect(x, {7, 9, 9, 7, 9, 9});
  x[{Slice(), rows({2, 0})}] = row({1, 2});
  expect(view, {2, 9, 1, 2, 9, 1});
  x[-1] = Tensor::from<int64_t>({4, 5, 6}, {3}).to(test_device());  // casts
  expect(view, {2, 9, 1, 4, 5, 6});
}

TEST(IndexedTensor, ChangesWhatIsThere) {
  const Tensor x = counted({2, 3}), view = x.reshape({6});
  x[0] += 1;
  x[1] -= row({1, 2, 3});
  expect(view, {1, 2, 3, 2, 2, 2});
  x[{ellipsis, Slice(0, 2)}] *= x[{Slice(), Slice(1, 3)}];
  expect(view, {2, 6, 3, 4, 4, 2});
  x[x > 3] /= 2;
  expect(view, {2, 3, 3, 2, 2, 2});
  x[{0, rows({0, 2})}] -= 5;
  expect(view, {-3, 3, -2, 2, 2, 2});
  x[1] /= row({2, 4, 8});
  expect(view, {-3, 3, -2, 1, 0.5, 0.25});
  x[{1, 0}] *= -4;
  x[{1, rows({1, 2})}] += row({10, 20});
  expect(view, {-3, 3, -2, -4, 10.5, 20.25});
}

// numpy: x = zeros(3); x[[0, 0, 2]] += [1, 2, 3] gives 2, 0, 3.
TEST(IndexedTensor, CountsAPlaceThatStandsThereTwiceOnce) {
  const Tensor x = zeros({3}, DType::f32, test_device());
  x[rows({0, 0, 2})] += row({1, 2, 3});
  expect(x, {2, 0, 3});
  x.index_put_({rows({0, 0, 2})}, row({1, 2, 3}), true);
  expect(x, {5, 0, 6});
}

TEST(IndexedTensor, ReachesPlacesAmongPlaces) {
  const Tensor x = counted({2, 2, 2});
  x[1][0] = 9;
  x[0][{Slice(), 1}][1] += 0.5;
  x[1][Slice(1, {})][0][1] = x[0][0][0];
  expect(x, {0, 1, 2, 3.5, 9, 9, 6, 0});
  x[0][rows({1})] *= 2;
  expect(x, {0, 1, 4, 7, 9, 9, 6, 0});
  expect_error([&] { x[rows({1})][0] = 1; }, {"mask or places give a copy"});
  expect_error([&] { x[x > 5][0] += 1; }, {"mask or places give a copy"});
  expect(x, {0, 1, 4, 7, 9, 9, 6, 0});
}

// What a graph makes of it: the twin out of place says.
TEST(IndexedTensor, IsRecordedWhereAGraphIs) {
  const Tensor w = row({1, 2, 3}).set_requires_grad();
  const Tensor coefficients = reshape(row({1, 2, 3, 4, 5, 6}), {2, 3});
  Tensor x = zeros({2, 3}, DType::f32, test_device());
  const Tensor other_handle = x;
  x[0] = w * 2;
  x[1] += w;
  x[{Slice(), 2}] *= w[0];
  x[0][1] = w[1] * w[1];
  x[1][Slice(0, 2)][0] -= w[2];
  expect(x, {2, 4, 6, -2, 2, 3});
  EXPECT_TRUE(other_handle.is_same(x));
  sum(x * coefficients).backward();
  // 2 w0, w1^2, 2 w2 w0; w0 - w2, w1, w2 w0
  expect(w.grad(), {2 * 1 + 3 * 2 * 3 + 4 + 6 * 3, 2 * 2 * 2 + 5, 3 * 2 * 1 - 4 + 6 * 1});
}

TEST(IndexedTensor, RefusesWhatInPlaceOperationsRefuse) {
  const Tensor w = counted({2, 2}).set_requires_grad();
  expect_error([&] { w[0] = 1; }, {"index_put_", "leaf"});
  expect_error([&] { w[0] += 1; }, {"index_put_", "leaf"});
  {
    NoGrad guard;
    w[0] += 1;
    w[1][0] = 8;
  }
  expect(w, {1, 2, 8, 3});
  const Tensor counts = zeros({2, 2}, DType::i64, test_device());
  expect_error([&] { counts[0] += row({0.5, 1}); }, {"+=", "does not fit"});
  expect_error([&] { counts[0] = 0.5; }, {"index_put_", "0.5"});
  expect_error([&] { counts[0] /= 2; }, {"/=", "f32", "does not fit in i64"});
  expect_error([&] { counts[0] /= counts[1]; }, {"/=", "f32", "does not fit in i64"});
  expect_error([&] { w[0] = row({1, 2, 3}); }, {"index_put_"});
  expect_error([&] { w[2] = 1; }, {"index", "2"});
  expect_error([&] { w[0] = Tensor(); }, {"index_put_"});
  EXPECT_EQ(counts.to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0, 0}));
}

struct Cube : autograd::Function<Cube> {
  static constexpr const char* name = "cube";
  Tensor forward(const Tensor& x) {
    save(x);
    NoGrad guard;
    return x * x * x;
  }
  TensorList backward(const TensorList& dy) { return {square(saved(0)) * 3.0 * dy[0]}; }
};

// Where a template takes what it is given: it is a tensor like any other.
TEST(IndexedTensor, IsATensorForTemplates) {
  const Tensor x = row({1, 2, 3}).set_requires_grad();
  Cube::apply(x[{Slice(1, {})}]).sum().backward();
  expect(x.grad(), {0, 12, 27});
  x.set_grad({});
  for (CheckpointMode mode : {CheckpointMode::non_reentrant, CheckpointMode::reentrant}) {
    const Tensor y = checkpoint([](const Tensor& in) { return (in * in)[1]; }, x, {.mode = mode});
    EXPECT_EQ(y.item(), 4);
    y.backward();
    checkpoint([](const Tensor& in) { return in * 5.0; }, x[2], {.mode = mode}).backward();
    expect(x.grad(), {0, 4, 5});
    x.set_grad({});
  }
  expect(clamp(x, counted({2, 3})[1]), {3, 4, 5});
}

TEST(IndexedTensor, IsATensorOnceItIsAVariable) {
  const Tensor x = counted({2, 2});
  auto first = x[0];
  auto copied = first;
  std::vector all{x[0], x[1]};
  first = x[1];  // another value: x stays
  expect(x, {0, 1, 2, 3});
  first += 1;  // the view's memory
  expect(x, {0, 1, 3, 4});
  copied[1] = 7;
  expect(x, {0, 7, 3, 4});
  all[1][0] = -1;
  expect(x, {0, 7, -1, 4});
  expect_error([&] { std::move(copied) = 1; }, {"variable"});
  expect_error([&] { std::move(first) = 1; }, {"variable"});
  const Tensor either = x.numel() > 9 ? x[0] : x;
  EXPECT_TRUE(either.is_same(x));
}

}  // namespace
}  // namespace reprise
