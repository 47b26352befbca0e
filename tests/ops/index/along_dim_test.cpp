// Operations along a dimension, against loops over places.
#include "reprise/autograd/ops/index/along_dim.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

// Of (A, N, B) along dim 1: `fn(x)[a, i, b] = x[a, from(a, i, b), b]`.
void check_places(const char* name, const std::function<Tensor(const Tensor&)>& fn, int64_t count,
                  const std::function<int64_t(int64_t, int64_t, int64_t)>& from) {
  constexpr int64_t outer = 2, size = 5, inner = 3;
  check_op(OpCase{.name = name,
                  .inputs = {{{outer, size, inner}}},
                  .fn = [=](const TensorList& in) { return fn(in[0]); },
                  .reference =
                      [=](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (int64_t a = 0; a < outer; ++a)
                          for (int64_t i = 0; i < count; ++i)
                            for (int64_t b = 0; b < inner; ++b)
                              y.push_back(x[size_t((a * size + from(a, i, b)) * inner + b)]);
                        return y;
                      },
                  .roundings = 4});
}

TEST(IndexSelect, PassesEveryCheckOfAnOp) {
  const std::vector<int64_t> places{4, 0, 4, 4, 2, 1, 4};
  const Tensor index = Tensor::from(places, {7});
  check_places(
      "index_select", [=](const Tensor& x) { return index_select(x, 1, index.to(x.device())); }, 7,
      [=](int64_t, int64_t i, int64_t) { return places[size_t(i)]; });
  const Tensor narrow = index.to(DType::i32);
  EXPECT_TRUE(testing::same_bits(index_select(arange(20).reshape({5, 4}), -2, narrow),
                                 index_select(arange(20).reshape({5, 4}), 0, index)));
  expect_error([&] { index_select(zeros({4, 2}), 0, index); }, {"index 4", "outside [0, 4)"});
  expect_error(
      [&] {
        index_select(zeros({4, 2}), 0, zeros({1, 2}, DType::i64));
      },
      {"index_select: the index must be (K), got (1, 2)"});
  expect_error([&] { index_select(scalar(1), 0, index); }, {"index_select: an index (7,) of a number"});
}

TEST(TakeAlongDim, PassesEveryCheckOfAnOp) {
  const Tensor index = Tensor::from<int64_t>({0, 4, 4, 2, 3, 3, 1, 0}, {2, 4, 1});
  check_places(
      "take_along_dim", [=](const Tensor& x) { return take_along_dim(x, index.to(x.device()), 1); }, 4,
      [=](int64_t a, int64_t i, int64_t) { return index.data<int64_t>()[a * 4 + i]; });
  EXPECT_EQ(take_along_dim(zeros({1, 5}), zeros({3, 2}, DType::i64), -1).shape(), (Shape{3, 2}));
  const Tensor small =
      Tensor::from<int64_t>({3, 1, 0, 2}, {2, 2});  // of torch.gather, which broadcasts nothing
  EXPECT_EQ(take_along_dim(arange(12).reshape({3, 4}).slice(0, 0, 2), small, 1).to_vector<int64_t>(),
            (std::vector<int64_t>{3, 1, 4, 6}));
  EXPECT_EQ(take_along_dim(arange(12).reshape({3, 4}).transpose(0, 1), small).to_vector<int64_t>(),
            (std::vector<int64_t>{1, 4, 0, 8}));  // among 0 4 8 1 5 9 ...
  EXPECT_EQ(take_along_dim(scalar(4), zeros({3}, DType::i32)).to_vector<double>(),
            (std::vector<double>{4, 4, 4}));
  expect_error([&] { take_along_dim(zeros({3}), small); }, {"index 3", "outside [0, 3)"});
  expect_error(
      [] {
        take_along_dim(zeros({2, 5}), zeros({2}, DType::i64), 0);
      },
      {"take_along_dim: the index (2,) needs the rank of (2, 5)"});
}

TEST(Flip, PassesEveryCheckOfAnOp) {
  check_places(
      "flip", [](const Tensor& x) { return flip(x, {1}); }, 5,
      [](int64_t, int64_t i, int64_t) { return 4 - i; });
  EXPECT_EQ(flip(arange(6).reshape({2, 3}), {0, -1}).to_vector<int64_t>(),
            (std::vector<int64_t>{5, 4, 3, 2, 1, 0}));
  EXPECT_EQ(flip(zeros({0, 2}), {0}).shape(), (Shape{0, 2}));
  expect_error([] { flip(zeros({2, 2}), {0, -2}); }, {"flip"});
}

TEST(Roll, PassesEveryCheckOfAnOp) {
  for (int64_t shift : {2, -2, 0, 5, 8, -13})
    check_places(
        "roll", [=](const Tensor& x) { return roll(x, shift, 1); }, 5,
        [=](int64_t, int64_t i, int64_t) { return ((i - shift) % 5 + 5) % 5; });
  EXPECT_EQ(roll(zeros({0}), 3, 0).shape(), Shape{0});
  EXPECT_EQ(roll(arange(3), std::numeric_limits<int64_t>::min(), 0).to_vector<int64_t>(),
            (std::vector<int64_t>{2, 0, 1}));  // -2^63 is -2 of 3
}

TEST(Roll, OfSeveralDimensionsPassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "roll of two dimensions",
                  .inputs = {{{2, 5, 3}}},
                  .fn =
                      [](const TensorList& in) {
                        return roll(in[0], {7, -1}, {1, -1});
                      },
                  .reference =
                      [](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (size_t i = 0; i < 30; ++i)
                          y.push_back(x[i / 15 * 15 + (i / 3 % 5 + 3) % 5 * 3 + (i + 1) % 3]);
                        return y;
                      },
                  .roundings = 0.5});
  EXPECT_EQ(roll(arange(3), {1, 1}, {0, 0}).to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(roll(arange(6).reshape({2, 3}), 4).to_vector<int64_t>(),
            (std::vector<int64_t>{2, 3, 4, 5, 0, 1}));
  EXPECT_EQ(roll(arange(6).reshape({2, 3}), -1).shape(), (Shape{2, 3}));
  EXPECT_EQ(roll(zeros({0, 2}), 3).shape(), (Shape{0, 2}));
  expect_error([] { roll(zeros({2, 2}), {1, 2}, Dims{0}); }, {"roll: shifts (1, 2) for dimensions (0,)"});
  expect_error([] { roll(zeros({2, 2}), {1, 2}, {0, 2}); }, {"roll", "dimension 2"});
}

TEST(Repeat, PassesEveryCheckOfAnOp) {
  check_places(
      "repeat",
      [](const Tensor& x) {
        return repeat(x, {1, 3, 1});
      },
      15, [](int64_t, int64_t i, int64_t) { return i % 5; });
  check_places(
      "repeat_interleave", [](const Tensor& x) { return repeat_interleave(x, 3, 1); }, 15,
      [](int64_t, int64_t i, int64_t) { return i / 3; });
  const std::vector<int64_t> slices{0, 0, 2, 3, 3, 3};
  check_places(
      "repeat_interleave by a tensor",
      [](const Tensor& x) {
        return repeat_interleave(x, Tensor::from<int64_t>({2, 0, 1, 3, 0}, {5}, x.device()), 1);
      },
      6, [=](int64_t, int64_t i, int64_t) { return slices[size_t(i)]; });
  for (const Shape& one : {Shape{}, Shape{1}})
    EXPECT_EQ(repeat_interleave(arange(2), Tensor::from<int32_t>({2}, one), -1).to_vector<int64_t>(),
              (std::vector<int64_t>{0, 0, 1, 1}));
  EXPECT_EQ(repeat_interleave(zeros({0}), zeros({0}, DType::i64), 0).shape(), Shape{0});
  expect_error(
      [] {
        repeat_interleave(zeros({2}), Tensor::from<int64_t>({1, -1}, {2}), 0);
      },
      {"repeat_interleave: -1 times"});
  expect_error([] { repeat_interleave(zeros({2}), ones({3}, DType::i64), 0); },
               {"repeat_interleave: times (3,) for the 2 slices of (2,)"});
  expect_error([] { repeat_interleave(zeros({2}), ones({2}), 0); }, {"times must be i64 or i32, got f32"});
  EXPECT_EQ(repeat(arange(2), {2, 2}).to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0, 1, 0, 1, 0, 1}));
  EXPECT_EQ(repeat(arange(2), {3, 0}).shape(), (Shape{3, 0}));
  EXPECT_EQ(repeat_interleave(arange(2), 0, 0).shape(), Shape{0});
  expect_error(
      [] {
        repeat(zeros({2, 2}), {2});
      },
      {"repeat: (2,) says less than the 2 dimensions of (2, 2)"});
  expect_error([] { repeat(zeros({2}), {-1}); }, {"repeat: (-1,) has a number below 0"});
}

TEST(ScatterAdd, PassesEveryCheckOfAnOp) {
  const std::vector<int64_t> places{0, 3, 3, 1, 3, 0, 2, 2, 3, 3, 1, 0};
  check_op(OpCase{.name = "scatter_add",
                  .inputs = {{{4, 2}}, {{6, 2}}, {.shape = {6, 2}, .values = Tensor::from(places, {6, 2})}},
                  .fn = [](const TensorList& in) { return scatter_add(in[0], 0, in[2], in[1]); },
                  .reference =
                      [=](const TensorList& in) {
                        std::vector<double> y = in[0].to_vector<double>();
                        const std::vector<double> source = in[1].to_vector<double>();
                        for (size_t i = 0; i < source.size(); ++i)
                          y[size_t(places[i]) * 2 + i % 2] += source[i];
                        return y;
                      }});
  check_op(
      OpCase{.name = "index_add",
             .inputs = {{{2, 4}}, {{2, 3}}, {.shape = {3}, .values = Tensor::from<int64_t>({3, 0, 3}, {3})}},
             .fn = [](const TensorList& in) { return index_add(in[0], 1, in[2], in[1]); },
             .reference =
                 [](const TensorList& in) {
                   std::vector<double> y = in[0].to_vector<double>();
                   const std::vector<double> source = in[1].to_vector<double>();
                   for (size_t i = 0; i < 6; ++i) y[i / 3 * 4 + (i % 3 == 1 ? 0 : 3)] += source[i];
                   return y;
                 }});
  check_op(OpCase{.name = "index_add by a factor",
                  .inputs = {{{4}}, {{3}}, {.shape = {3}, .values = Tensor::from<int64_t>({3, 0, 3}, {3})}},
                  .fn = [](const TensorList& in) { return index_add(in[0], 0, in[2], in[1], -0.5); },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> y = in[0].to_vector<double>();
                        const std::vector<double> source = in[1].to_vector<double>();
                        for (size_t i = 0; i < 3; ++i) y[i % 2 ? 0 : 3] -= 0.5 * source[i];
                        return y;
                      }});
  const Tensor whole = arange(3), first = zeros({1}, DType::i64);
  EXPECT_EQ(index_add(whole, 0, first, ones({1}, DType::i64), 3).to_vector<int64_t>(),
            (std::vector<int64_t>{3, 1, 2}));
  expect_error([&] { index_add(whole, 0, first, first, 0.5); }, {"index_add: 0.5 is not a whole number"});
  expect_error(
      [] {
        scatter_add(zeros({4, 2}), 0, zeros({3, 2}, DType::i64), zeros({2, 2}));
      },
      {"scatter_add: index (3, 2) and source (2, 2) do not fit (4, 2) along dimension 0"});
  expect_error(
      [] {
        index_add(zeros({4, 2}), 0, zeros({1}, DType::i64), zeros({1, 2}, DType::i64));
      },
      {"dtypes differ: f32 and i64"});
}

// The reference walks along the index: the last value stays.
TEST(Scatter, PassesEveryCheckOfAnOp) {
  const std::vector<int64_t> places{0, 3, 3, 1, 3, 0, 2, 2, 3, 3, 1, 0};
  auto set = [=](const TensorList& in, const std::vector<double>& source) {
    std::vector<double> y = in[0].to_vector<double>();
    for (size_t i = 0; i < source.size(); ++i) y[size_t(places[i]) * 2 + i % 2] = source[i];
    return y;
  };
  check_op(OpCase{.name = "scatter",
                  .inputs = {{{4, 2}}, {{6, 2}}, {.shape = {6, 2}, .values = Tensor::from(places, {6, 2})}},
                  .fn = [](const TensorList& in) { return scatter(in[0], 0, in[2], in[1]); },
                  .reference = [=](const TensorList& in) { return set(in, in[1].to_vector<double>()); }});
  check_op(OpCase{.name = "scatter of a number",
                  .inputs = {{{4, 2}}, {.shape = {6, 2}, .values = Tensor::from(places, {6, 2})}},
                  .fn = [](const TensorList& in) { return scatter(in[0], -2, in[1], 1.5); },
                  .reference = [=](const TensorList& in) { return set(in, std::vector<double>(12, 1.5)); }});
  check_op(
      OpCase{.name = "index_copy",
             .inputs = {{{2, 4}}, {{2, 3}}, {.shape = {3}, .values = Tensor::from<int64_t>({3, 0, 3}, {3})}},
             .fn = [](const TensorList& in) { return index_copy(in[0], 1, in[2], in[1]); },
             .reference =
                 [](const TensorList& in) {
                   std::vector<double> y = in[0].to_vector<double>();
                   const std::vector<double> source = in[1].to_vector<double>();
                   for (size_t i = 0; i < 6; ++i) y[i / 3 * 4 + (i % 3 == 1 ? 0 : 3)] = source[i];
                   return y;
                 }});
  check_op(OpCase{.name = "index_fill",
                  .inputs = {{{2, 4}}, {.shape = {2}, .values = Tensor::from<int64_t>({3, 1}, {2})}},
                  .fn = [](const TensorList& in) { return index_fill(in[0], 1, in[1], -2); },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> y = in[0].to_vector<double>();
                        for (size_t i : {1, 3, 5, 7}) y[i] = -2;
                        return y;
                      }});
  expect_error(
      [] {
        scatter(zeros({4, 2}), 0, zeros({3, 2}, DType::i64), zeros({2, 2}));
      },
      {"scatter: index (3, 2) and source (2, 2) do not fit (4, 2) along dimension 0"});
  expect_error([] { index_fill(zeros({4}, DType::i64), 0, zeros({1}, DType::i64), 0.5); },
               {"index_fill: 0.5"});
}

// For each place of an index into x (3, 4, 5) along `dim`: the element of x, that of the source, and whose the index is.
struct SmallIndex {
  explicit SmallIndex(int dim) {
    index[dim] = 6;  // longer than x there
    source[dim] = 7;
    const Shape x{3, 4, 5};
    for (int64_t i = 0; i < numel_of(index); ++i) {
      Dims at{i / (index[1] * index[2]), i / index[2] % index[1], i % index[2]};
      of_source.push_back(size_t((at[0] * source[1] + at[1]) * source[2] + at[2]));
      at[dim] = i * 7 % 11 % x[dim];
      places.push_back(at[dim]);
      of_x.push_back(size_t((at[0] * x[1] + at[1]) * x[2] + at[2]));
    }
  }
  Shape index{2, 3, 4}, source{3, 3, 6};
  std::vector<int64_t> places;
  std::vector<size_t> of_x, of_source;
};

TEST(Scatter, TakesAnIndexSmallerThanTheTensorAndTheSource) {
  for (int dim : {0, 1, 2})
    for (bool adds : {false, true}) {
      const SmallIndex small(dim);
      check_op(OpCase{.name = detail::join(adds ? "scatter_add" : "scatter", " by a small index along ", dim),
                      .inputs = {{{3, 4, 5}},
                                 {small.source},
                                 {.shape = small.index, .values = Tensor::from(small.places, small.index)}},
                      .fn =
                          [=](const TensorList& in) {
                            return adds ? scatter_add(in[0], dim, in[2], in[1])
                                        : scatter(in[0], dim, in[2], in[1]);
                          },
                      .reference =
                          [=](const TensorList& in) {
                            std::vector<double> y = in[0].to_vector<double>();
                            const std::vector<double> source = in[1].to_vector<double>();
                            for (size_t i = 0; i < small.of_x.size(); ++i) {
                              double& element = y[small.of_x[i]];
                              element = source[small.of_source[i]] + (adds ? element : 0);
                            }
                            return y;
                          }});
    }
  const Tensor m = zeros({3, 4}), index = Tensor::from<int32_t>({3, 3}, {1, 2}), source = ones({1, 2});
  EXPECT_EQ(scatter_add(m, 1, index, source).to_vector<double>(),
            (std::vector<double>{0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(scatter(m, 0, index.slice(1, 1, 2) - 1, 5).to_vector<double>(),
            (std::vector<double>{0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0}));
  EXPECT_TRUE(testing::same_bits(scatter(m, 1, zeros({0, 2}, DType::i64), source), m));
  EXPECT_TRUE(testing::same_bits(scatter_add(m, 0, zeros({2, 0}, DType::i64), zeros({2, 2})), m));
  expect_error([&] { scatter(m, 1, zeros({4, 1}, DType::i64), 1); }, {"scatter: index (4, 1)", "(3, 4)"});
  expect_error(
      [&] {
        scatter_add(m, 1, zeros({1, 3}, DType::i64), source);
      },
      {"index (1, 3) and source (1, 2)"});
  expect_error([&] { scatter(m, 1, zeros({2}, DType::i64), zeros({2})); }, {"do not fit (3, 4)"});
  expect_error(
      [&] {
        index_add(m, 1, zeros({1}, DType::i64), zeros({3, 2}));
      },
      {"index_add: the source (3, 2) is not of shape (3, 1)"});
  expect_error(
      [&] {
        index_copy(m, 1, zeros({1}, DType::i64), zeros({2, 1}));
      },
      {"index_copy: the source (2, 1) is not of shape (3, 1)"});
}

TEST(SoftmaxAlong, PassesEveryCheckOfAnOp) {
  auto sums = [](const std::vector<double>& x, size_t i) {  // of e^x over dim 1 of (2, 5, 3)
    double sum = 0;
    for (size_t n = 0; n < 5; ++n) sum += std::exp(x[(i / 15 * 5 + n) * 3 + i % 3]);
    return sum;
  };
  check_op(OpCase{.name = "softmax along",
                  .inputs = {{{2, 5, 3}}},
                  .fn = [](const TensorList& in) { return softmax(in[0], 1); },
                  .reference =
                      [=](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (size_t i = 0; i < x.size(); ++i) y.push_back(std::exp(x[i]) / sums(x, i));
                        return y;
                      }});
  check_op(OpCase{.name = "log_softmax along",
                  .inputs = {{{2, 5, 3}}},
                  .fn = [](const TensorList& in) { return log_softmax(in[0], -2); },
                  .reference =
                      [=](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (size_t i = 0; i < x.size(); ++i) y.push_back(x[i] - std::log(sums(x, i)));
                        return y;
                      }});
  EXPECT_EQ(softmax(zeros({2}, DType::bf16), {.out = DType::f32}).dtype(), DType::f32);
}

TEST(Extremes, AlongADimensionAreTheFirst) {
  const Tensor x = Tensor::from<double>({1, 7, 3, 7, 1, 3}, {3, 2});
  EXPECT_EQ(argmax(x, 0).to_vector<int64_t>(), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(argmin(x, 0).to_vector<int64_t>(), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(argmin(x, 1).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 0}));
  EXPECT_EQ(argmax(x, 0, true).shape(), (Shape{1, 2}));
  const Tensor with_nan = Tensor::from<double>({2, NAN, 1, NAN}, {4});
  EXPECT_EQ(argmin(with_nan, 0).item(), 1);
  EXPECT_EQ(argmax(with_nan, 0).item(), 1);
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(argmin(Tensor::from<int64_t>({0, least, -1, 1}, {4}), 0).item(), 1);
  EXPECT_EQ(argmin(Tensor::from<uint8_t>({1, 255, 0}, {3}), 0).item(), 2);
  EXPECT_FALSE(argmin(ones({3}).set_requires_grad(), 0).requires_grad());
}

// PyTorch 2.15: `x.argmax()` without a dimension counts in row-major order, and NaN is the largest and the smallest.
TEST(Extremes, OfAllElementsAreTheFirstInRowMajorOrder) {
  const Tensor x = Tensor::from<double>({1, 7, 0, 7, 0, 3}, {3, 2});
  EXPECT_EQ(argmax(x).shape(), Shape{});
  EXPECT_EQ(argmax(x).dtype(), DType::i64);
  EXPECT_EQ(argmax(x).item(), 1);
  EXPECT_EQ(argmin(x).item(), 2);
  EXPECT_EQ(argmax(transpose(x, 0, 1)).item(), 3);  // rows 1 0 0 and 7 7 3: not in the order of the memory
  EXPECT_EQ(argmin(transpose(x, 0, 1)).item(), 1);
  const Tensor with_nan = Tensor::from<double>({2, INFINITY, NAN, -INFINITY, NAN, 1}, {2, 3});
  EXPECT_EQ(argmax(with_nan).item(), 2);
  EXPECT_EQ(argmin(with_nan).item(), 2);
  EXPECT_EQ(argmax(scalar(3)).item(), 0);
  EXPECT_EQ(argmin(scalar(NAN)).shape(), Shape{});
  const int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();
  const Tensor whole = Tensor::from<int64_t>({least + 1, least, most - 1, most, least, most}, {2, 3});
  EXPECT_EQ(argmax(whole).item(), 3);
  EXPECT_EQ(argmin(whole).item(), 1);
  EXPECT_FALSE(argmax(ones({3}).set_requires_grad()).requires_grad());
  expect_error([] { argmax(zeros({2, 0})); }, {"argmax: dimension 0 of (0,) is empty"});
  expect_error([] { argmin(zeros({2, 0})); }, {"argmin: dimension 0 of (0,) is empty"});
  expect_error([] { argmin(zeros({2, 0}), 1); }, {"argmin: dimension 1 of (2, 0) is empty"});
  EXPECT_EQ(argmin(zeros({2, 0}), 0).shape(), Shape{0});
}

TEST(Sort, PassesEveryCheckOfAnOp) {
  auto sorted = [](const TensorList& in, size_t count) {  // descending along dim 1 of (2, 5, 3)
    const std::vector<double> x = in[0].to_vector<double>();
    std::vector<double> y(2 * count * 3);
    for (size_t i = 0; i < 6; ++i) {
      std::vector<double> row;
      for (size_t n = 0; n < 5; ++n) row.push_back(x[(i / 3 * 5 + n) * 3 + i % 3]);
      std::sort(row.rbegin(), row.rend());
      for (size_t n = 0; n < count; ++n) y[(i / 3 * count + n) * 3 + i % 3] = row[n];
    }
    return y;
  };
  check_op(OpCase{.name = "sort",
                  .inputs = {{{2, 5, 3}}},
                  .fn = [](const TensorList& in) { return sort(in[0], 1, true).values; },
                  .reference = [=](const TensorList& in) { return sorted(in, 5); },
                  .roundings = 0.5});
  check_op(OpCase{.name = "topk",
                  .inputs = {{{2, 5, 3}}},
                  .fn = [](const TensorList& in) { return topk(in[0], 2, 1).values; },
                  .reference = [=](const TensorList& in) { return sorted(in, 2); },
                  .roundings = 0.5});
  const Tensor x = Tensor::from<double>({3, 1, NAN, 1, 2}, {5});
  EXPECT_EQ(argsort(x).to_vector<int64_t>(), (std::vector<int64_t>{1, 3, 4, 0, 2}));
  EXPECT_EQ(argsort(x, 0, true).to_vector<int64_t>(), (std::vector<int64_t>{2, 0, 4, 1, 3}));
  EXPECT_EQ(topk(x, 2, 0, false).indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(topk(x, 0).values.shape(), Shape{0});
  EXPECT_EQ(sort(zeros({0, 3}), 0).indices.shape(), (Shape{0, 3}));
  expect_error([&] { topk(x, 6); }, {"topk: 6 of dimension -1 of (5,)"});
}

TEST(Cumsum, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "cumsum",
                  .inputs = {{{2, 5, 3}}},
                  .fn = [](const TensorList& in) { return cumsum(in[0], 1); },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> y = in[0].to_vector<double>();
                        for (size_t i = 0; i < y.size(); ++i)
                          if (i % 15 >= 3) y[i] += y[i - 3];
                        return y;
                      }});
  EXPECT_EQ(cumsum(ones({300}, DType::boolean), 0).to_vector<int64_t>().back(), 300);
  EXPECT_EQ(cumsum(zeros({2, 0}), 1).shape(), (Shape{2, 0}));
}

}  // namespace
}  // namespace reprise
