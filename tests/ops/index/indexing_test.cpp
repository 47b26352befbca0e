// x[...]: numbers, slices, new axes, masks and places, against places that were written down (those of several index tensors by
// PyTorch) and against loops.
#include "reprise/autograd/ops/index/indexing.h"

#include <limits>

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
using testing::same_bits;
using testing::test_device;
using Floats = std::vector<float>;
using Items = std::vector<Index>;

Tensor counted(const Shape& shape) {
  return reshape(arange(numel_of(shape), DType::f32, test_device()), shape);
}
Tensor whole(const std::vector<int64_t>& values, const Shape& shape) {
  return Tensor::from<int64_t>(values, shape).to(test_device());
}
Tensor mask(const std::vector<uint8_t>& values, const Shape& shape) {
  return Tensor::from<uint8_t>(values, shape).to(DType::boolean).to(test_device());
}
void expect(const Tensor& y, const Shape& shape, const Floats& values) {
  EXPECT_EQ(y.shape(), shape);
  EXPECT_EQ(y.to_vector<float>(), values);
}

TEST(Indexing, ByNumbersAndSlicesIsAView) {
  const Tensor x = counted({2, 3, 4});
  expect(x[1], {3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(x[-1][{0, 2}], {}, {14});
  expect(x[{0, -1}], {4}, {8, 9, 10, 11});
  expect(x[{ellipsis, 3}], {2, 3}, {3, 7, 11, 15, 19, 23});
  expect(x[{1, ellipsis, Slice(1, 3), 0}], {2}, {16, 20});
  expect(x[{-1, Slice(-5, 2), Slice({}, {}, 3)}], {2, 2}, {12, 15, 16, 19});
  expect(x[{Slice(), Slice(5, {}), 0}], {2, 0}, {});
  expect(x[{Slice(), Slice(2, 1)}], {2, 0, 4}, {});
  expect(x[{0, new_axis, 1, Slice(-2, {})}], {1, 2}, {6, 7});
  expect(x[{0, 1, 2, new_axis, ellipsis, new_axis}], {1, 1}, {6});
  const Tensor all = x[{}];
  EXPECT_EQ(all.shape(), (Shape{2, 3, 4}));
  EXPECT_EQ(x[Slice(1, {})].shape(), (Shape{1, 3, 4}));
  EXPECT_EQ((x[{Slice(0, 2, std::numeric_limits<int64_t>::max())}].shape()), (Shape{1, 3, 4}));
  for (const Tensor& view : {x[1], x[{0, -1}], x[{ellipsis, 3}], x[{Slice(0, 1), new_axis}]})
    EXPECT_EQ(view.storage(), x.storage());
  x[{0, 1}].fill_(100);
  EXPECT_EQ((x[{0, 1, 2}].item()), 100);
}

TEST(Indexing, BySeveralTensorsPutsTheirDimensionsWhereNumpyDoes) {
  const Tensor x = counted({2, 3, 4});
  const Tensor a = whole({0, 2}, {2}), b = whole({1, 3}, {2});
  expect(x[{Slice(), a, b}], {2, 2}, {1, 11, 13, 23});
  expect(x[{whole({0, 1}, {2}), Slice(), b}], {2, 3}, {1, 5, 9, 15, 19, 23});
  expect(x[{0, Slice(), b}], {3, 2}, {1, 3, 5, 7, 9, 11});  // a number is no index tensor: as in PyTorch
  expect(x[{Slice(), a, new_axis, b}], {2, 2, 1}, {1, 13, 11, 23});
  EXPECT_EQ((x[{ellipsis, whole({0, 2}, {2, 1}), b}].shape()), (Shape{2, 2, 2}));
  EXPECT_EQ((x[{whole({1}, {1}), new_axis, whole({2}, {1})}].shape()), (Shape{1, 1, 4}));
  EXPECT_EQ((x[{new_axis, whole({1}, {1}), whole({2}, {1})}].shape()), (Shape{1, 1, 4}));
  expect(x[{Slice(), -1, b}], {2, 2}, {9, 11, 21, 23});
  expect(x[{1, a, whole({-1, -4}, {2})}], {2}, {15, 20});  // negative ones count from the end
  expect(x[{Slice(), whole({}, {0})}], {2, 0, 4}, {});
  expect(counted({5})[whole({4}, {})], {}, {4});
  expect(x[{Slice(), whole({-1}, {}), 0}], {2}, {8, 20});
  const Tensor halves = x.to(DType::bf16)[{whole({1, 1}, {2}), 2, whole({3, 0}, {2})}];
  EXPECT_EQ(halves.dtype(), DType::bf16);
  EXPECT_EQ(halves.to_vector<float>(), (Floats{23, 20}));
  EXPECT_EQ(
      (arange(24).reshape({2, 3, 4})[{ellipsis, Tensor::from<int64_t>({3, 3}, {2})}].to_vector<int64_t>()),
      (std::vector<int64_t>{3, 3, 7, 7, 11, 11, 15, 15, 19, 19, 23, 23}));
}

TEST(Indexing, ByAMaskPicksElementsOrRows) {
  const Tensor x = counted({2, 3, 4}), m = mask({1, 0, 1, 0, 1, 0}, {2, 3});
  EXPECT_EQ(x[m].shape(), (Shape{3, 4}));
  expect(x[{m, Slice(1, 3)}], {3, 2}, {1, 2, 9, 10, 17, 18});
  expect(x[{m, whole({0, 1, 2}, {3})}], {3}, {0, 9, 18});
  expect(x[{Slice(), m[0], -1}], {2, 2}, {3, 11, 15, 23});
  expect(x[x > 20.5], {3}, {21, 22, 23});
  EXPECT_EQ(x[x > 100.0].shape(), Shape{0});
  expect(x[{mask({0, 1}, {2}), 0, Slice({}, 2)}], {1, 2}, {12, 13});
}

TEST(Indexing, RefusesWhatIsNoPlace) {
  const Tensor x = counted({2, 3});
  expect_error([&] { x[2]; }, "index: place 2 is outside dimension 0 of (2, 3)");
  expect_error([&] { x[{0, -4}]; }, "index: place -4 is outside dimension 0 of (3,)");
  expect_error([&] { x[{0, 0, 0}]; }, "index: 3 indices in a tensor of shape (2, 3)");
  expect_error([&] { x[{ellipsis, 0, ellipsis}]; }, "index: more than one ellipsis");
  expect_error([&] { x[Slice(0, 2, 0)]; }, "index: a slice has step 0, which must be at least 1");
  expect_error([&] { x[counted({2})]; }, "index: places must be i64, i32 or bool, got f32");
  expect_error([&] { x[Tensor()]; }, "index", "undefined");
  expect_error(
      [&] {
        x[mask({1, 0, 1}, {3})];
      },
      "index: a mask of shape (3,) at dimension 0 of a tensor of shape (2, 3)");
  expect_error(
      [&] {
        x[{0, mask({1, 0}, {2})}];
      },
      "index: a mask of shape (2,) at dimension 0 of a tensor of shape (3,)");
  expect_error([&] { x[mask({1}, {})]; }, "index: a mask needs at least one dimension");
  expect_error([&] { x[{whole({0, 1}, {2}), whole({0, 1, 2}, {3})}]; }, "index", "(2,)", "(3,)");
  expect_error([&] { x[std::numeric_limits<uint64_t>::max()]; }, "18446744073709551615");
  expect_error([] { Tensor()[0]; }, "index", "undefined");
  const bool on_cpu = test_device().is_cpu();
  for (int64_t bad : {3, -4})
    expect_error(
        [&] {
          x[{Slice(), whole({0, bad}, {2})}].to_vector<float>();
        },
        on_cpu ? detail::join("index: place ", bad, " at element 1 is outside [-3, 3)")
               : detail::join("gather: index ", bad < 0 ? bad + 3 : bad, " at element 1 is outside [0, 3)"));
}

// y[a, r, b] = x[places[r] of the two outer dimensions in a row, b], by loops.
TEST(Index, OfTensorsPassesEveryCheckOfAnOp) {
  const std::vector<int64_t> first{1, 0, 1, -1}, second{2, 0, 2, 1};
  const Tensor i = Tensor::from(first, {2, 2}), j = Tensor::from(second, {2, 2});
  check_op(OpCase{.name = "index",
                  .inputs = {{{3, 2, 3, 2}}, {.shape = {2, 2}, .values = i}, {.shape = {2, 2}, .values = j}},
                  .fn =
                      [](const TensorList& in) {
                        return index(in[0], {Slice(1, {}), in[1], in[2]});
                      },
                  .reference =
                      [=](const TensorList& in) {
                        const auto x = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (size_t a = 1; a < 3; ++a)
                          for (size_t r = 0; r < 4; ++r)
                            for (size_t b = 0; b < 2; ++b) {
                              const size_t row = first[r] == 0 ? 0 : 1;
                              y.push_back(x[((a * 2 + row) * 3 + size_t(second[r])) * 2 + b]);
                            }
                        return y;
                      },
                  .roundings = 4});
}

TEST(Index, TakesPlacesOfI32AsOfI64) {
  auto narrow = [](const Tensor& places) { return places.to(DType::i32); };
  const Tensor x = counted({3, 4}), rows = whole({2, -3, 2}, {3}), columns = whole({-1, 0, 1}, {3}),
               one = whole({-2}, {});
  EXPECT_TRUE(same_bits(x[narrow(rows)], x[rows]));
  EXPECT_TRUE(same_bits(x[narrow(one)], x[1]));
  EXPECT_TRUE(same_bits(x[{narrow(rows), columns}], x[{rows, columns}]));
  EXPECT_TRUE(same_bits(x[{Slice(), narrow(columns)}], x[{Slice(), columns}]));
  EXPECT_TRUE(same_bits(index_put(x, {narrow(rows)}, 7), index_put(x, {rows}, 7)));
  check_op(OpCase{.name = "index by i32",
                  .inputs = {{{3, 4}}, {.shape = {3}, .values = rows.to(Device()).to(DType::i32)}},
                  .fn = [](const TensorList& in) { return in[0][in[1]]; },
                  .reference =
                      [](const TensorList& in) {
                        const std::vector<double> numbers = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (size_t row : {2, 0, 2})
                          for (size_t i = 0; i < 4; ++i) y.push_back(numbers[row * 4 + i]);
                        return y;
                      }});
}

TEST(Index, AddsUpTheGradientsOfEqualPlaces) {
  const Tensor x = counted({3, 2});
  x.set_requires_grad();
  EXPECT_EQ(grad({sum(x[whole({2, 0, 2}, {3})])}, {x})[0].to_vector<float>(), (Floats{1, 1, 0, 0, 2, 2}));
  const Tensor picked = x[x > 2.5];
  EXPECT_EQ(grad({sum(picked * picked)}, {x})[0].to_vector<float>(), (Floats{0, 0, 0, 6, 8, 10}));
  EXPECT_EQ(grad({sum(x[{Slice(1, {}), 1}])}, {x})[0].to_vector<float>(), (Floats{0, 0, 0, 1, 0, 1}));
}

// The reference walks over the values in row-major order: the last stays, or all are added.
void check_put(bool accumulate) {
  const std::vector<int64_t> places{3, 0, 3, -2, 3};  // -2 is 2
  check_op(OpCase{.name = accumulate ? "index_put, adding" : "index_put",
                  .inputs = {{{2, 4, 3}}, {{2, 5, 2}}, {.shape = {5}, .values = Tensor::from(places, {5})}},
                  .fn =
                      [=](const TensorList& in) {
                        return index_put(in[0], {ellipsis, in[2], Slice(1, {})}, in[1], accumulate);
                      },
                  .reference =
                      [=](const TensorList& in) {
                        std::vector<double> y = in[0].to_vector<double>();
                        const auto values = in[1].to_vector<double>();
                        for (size_t n = 0; n < values.size(); ++n) {
                          const size_t a = n / 10, r = n / 2 % 5, b = n % 2;
                          const size_t row = places[r] < 0 ? 2 : size_t(places[r]);
                          double& place = y[(a * 4 + row) * 3 + 1 + b];
                          place = accumulate ? place + values[n] : values[n];
                        }
                        return y;
                      }});
}
TEST(IndexPut, PassesEveryCheckOfAnOp) { check_put(false); }
TEST(IndexPut, ThatAddsPassesEveryCheckOfAnOp) { check_put(true); }

TEST(IndexPut, OfASlicePassesEveryCheckOfAnOp) {
  auto reference = [](bool accumulate) {
    return [=](const TensorList& in) {  // (3, 5, 2): column 1 and 3 of all but the first
      std::vector<double> y = in[0].to_vector<double>();
      const auto values = in[1].to_vector<double>();  // (2), of each place
      for (size_t a = 1; a < 3; ++a)
        for (size_t i : {1, 3})
          for (size_t b = 0; b < 2; ++b) {
            double& place = y[(a * 5 + i) * 2 + b];
            place = accumulate ? place + values[b] : values[b];
          }
      return y;
    };
  };
  for (bool accumulate : {false, true})
    check_op(OpCase{.name = "index_put of a slice",
                    .inputs = {{{3, 5, 2}}, {{2}}},
                    .fn =
                        [=](const TensorList& in) {
                          return index_put(in[0], {Slice(1, {}), Slice(1, {}, 2)}, in[1], accumulate);
                        },
                    .reference = reference(accumulate)});
}

TEST(IndexPut, KeepsTheDtypeAndWhatItWasGiven) {
  const Tensor x = counted({2, 2});
  const Tensor y = index_put(x, {1}, 7);
  expect(y, {2, 2}, {0, 1, 7, 7});
  expect(x, {2, 2}, {0, 1, 2, 3});
  const Tensor whole_ones = whole({1, 2, 3}, {3});
  EXPECT_EQ(index_put(whole_ones, {Slice(0, 2)}, counted({2}) + 5.75).to_vector<int64_t>(),
            (std::vector<int64_t>{5, 6, 3}));
  expect_error([&] { index_put(whole_ones, {0}, 0.5); }, "index_put: 0.5 is not a whole number");
  expect(index_put(x, {x > 1.5}, counted({2}) * 10.0), {2, 2}, {0, 1, 0, 10});
  expect(index_put(x, {Slice(), whole({0, 0}, {2})}, counted({2, 2})), {2, 2}, {1, 1, 3, 3});
  // Of dimensions that no strides join: the table is a copy.
  const Tensor turned = transpose(counted({2, 3, 2}), 0, 2);
  const Tensor z = index_put(turned, {whole({1, 0}, {2}), Slice(), whole({1, 1}, {2})}, -1);
  EXPECT_EQ((z[{Slice(), 0}].to_vector<float>()), (Floats{0, -1, 1, -1}));
  expect_error([&] { index_put(x, {0}, counted({3})); },
               "index_put: values (3,) do not broadcast to the places, of shape (2,)");
  expect_error([&] { index_put(x, {0}, Tensor()); }, "index_put", "undefined");
}

// Of two values for one place the first has no part in the result, nor a gradient.
TEST(IndexPut, HasTheGradientOfTheValueThatStays) {
  const Tensor x = counted({3}), values = counted({4});
  x.set_requires_grad(), values.set_requires_grad();
  const Tensor y = index_put(x, {whole({1, 2, 1, 1}, {4})}, values);
  expect(y, {3}, {0, 3, 1});
  const TensorList g = grad({sum(y * counted({3}))}, {x, values});
  EXPECT_EQ(g[0].to_vector<float>(), (Floats{0, 0, 0}));
  EXPECT_EQ(g[1].to_vector<float>(), (Floats{0, 2, 0, 1}));
}

TEST(SliceScatter, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "slice_scatter",
                  .inputs = {{{2, 5, 3}}, {{2, 2, 3}}},
                  .fn = [](const TensorList& in) { return slice_scatter(in[0], in[1], 1, -4, {}, 2); },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> y = in[0].to_vector<double>();
                        const auto source = in[1].to_vector<double>();
                        for (size_t n = 0; n < source.size(); ++n)
                          y[n / 6 * 15 + (1 + n / 3 % 2 * 2) * 3 + n % 3] = source[n];
                        return y;
                      }});
  check_op(OpCase{.name = "select_scatter",
                  .inputs = {{{2, 5, 3}}, {{2, 5}}},
                  .fn = [](const TensorList& in) { return select_scatter(in[0], in[1], -1, -2); },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> y = in[0].to_vector<double>();
                        const auto source = in[1].to_vector<double>();
                        for (size_t n = 0; n < source.size(); ++n) y[n * 3 + 1] = source[n];
                        return y;
                      }});
  expect_error([] { slice_scatter(zeros({3}), zeros({1}), 0, 1, 3); },
               "slice_scatter: the source (1,) is not of shape (2,)");
  expect_error([] { select_scatter(zeros({3}), scalar(1, DType::f64), 0, 1); },
               "select_scatter: dtypes differ: f32 and f64");
}

}  // namespace
}  // namespace reprise
