// Numbers, which have no dimensions, where an operation wants one to work along: dimension 0 or -1 of size 1, as in PyTorch 2.15.
#include <functional>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

Tensor place(const Tensor& like) { return scalar(0, DType::i64, like.device()); }
Tensor places(const Tensor& like) { return zeros({1}, DType::i64, like.device()); }

// What gives a number back: x itself, or of a second number y.
TEST(NumbersAlongADimension, PassEveryCheckOfAnOp) {
  using Fn = Tensor (*)(const Tensor& x, const Tensor& y, int64_t dim);
  struct Case {
    const char* name;
    Fn fn;
    double of_x, of_y;  // the result is a sum of both by these factors
  };
  for (const auto& [name, fn, of_x, of_y] : {
           Case{"sort", [](const Tensor&x, const Tensor&, int64_t d) { return sort(x, d).values; }, 1, 0},
           Case{"topk", [](const Tensor&x, const Tensor&, int64_t d) { return topk(x, 1, d).values; }, 1, 0},
           Case{"cumsum", [](const Tensor&x, const Tensor&, int64_t d) { return cumsum(x, d); }, 1, 0},
           Case{"index_select",
                [](const Tensor&x, const Tensor&, int64_t d) { return index_select(x, d, places(x)); }, 1, 0},
           Case{"take_along_dim",
                [](const Tensor&x, const Tensor&, int64_t d) { return take_along_dim(x, place(x), d); }, 1,
                0},
           Case{"flip", [](const Tensor&x, const Tensor&, int64_t d) { return flip(x, {d}); }, 1, 0},
           Case{"roll", [](const Tensor&x, const Tensor&, int64_t d) { return roll(x, 3, d); }, 1, 0},
           Case{"scatter",
                [](const Tensor&x, const Tensor&y, int64_t d) { return scatter(x, d, place(x), y); }, 0, 1},
           Case{"scatter_add",
                [](const Tensor&x, const Tensor&y, int64_t d) { return scatter_add(x, d, place(x), y); }, 1,
                1},
           Case{"index_add",
                [](const Tensor&x, const Tensor&y, int64_t d) { return index_add(x, d, place(x), y, 2); }, 1,
                2},
           Case{"index_copy",
                [](const Tensor&x, const Tensor&y, int64_t d) { return index_copy(x, d, places(x), y); }, 0,
                1},
       })
    for (int64_t dim : {0, -1})
      check_op(OpCase{.name = detail::join(name, " of a number along ", dim),
                      .inputs = {{Shape{}}, {Shape{}}},
                      .fn = [=, f = fn](const TensorList& in) { return f(in[0], in[1], dim) + in[1] * 0.0; },
                      .reference =
                          [a = of_x, b = of_y](const TensorList& in) {
                            return std::vector<double>{a * in[0].item() + b * in[1].item()};
                          }});
}

TEST(NumbersAlongADimension, HavePlaceZero) {
  const Tensor x = scalar(5);
  for (int64_t dim : {0, -1}) {
    for (const Tensor& y : {argmax(x, dim), argmin(x, dim, true), argsort(x, dim), sort(x, dim, true).indices,
                            topk(x, 1, dim).indices}) {
      EXPECT_EQ(y.shape(), Shape{});
      EXPECT_EQ(y.dtype(), DType::i64);
      EXPECT_EQ(y.item(), 0);
    }
    EXPECT_EQ(softmax(x, dim).item(), 1);
    EXPECT_EQ(log_softmax(x, dim).shape(), Shape{});
    EXPECT_EQ(index_fill(x, dim, place(x), 7).item(), 7);
    EXPECT_EQ(scatter(x, dim, place(x), 7).shape(), Shape{});
    EXPECT_EQ(repeat_interleave(x, 3, dim).to_vector<double>(), (std::vector<double>{5, 5, 5}));
  }
  EXPECT_EQ(cumsum(scalar(1, DType::boolean), 0).dtype(), DType::i64);
  EXPECT_EQ(roll(x, 2).shape(), Shape{});
  EXPECT_EQ(flip(x, {}).item(), 5);
  // Several places of a number are summed or set in order; an index without dimensions is one place.
  const Tensor twice = zeros({2}, DType::i64), ones_and_twos = Tensor::from<float>({1, 2}, {2});
  EXPECT_EQ(scatter_add(x, 0, twice, ones_and_twos).item(), 8);
  EXPECT_EQ(scatter(x, 0, twice, ones_and_twos).item(), 2);
  EXPECT_EQ(index_select(ones_and_twos, 0, place(x)).shape(), Shape{1});
}

TEST(NumbersAlongADimension, HaveNoOtherDimension) {
  const Tensor x = scalar(5);
  for (int64_t dim : {1, -2}) {
    expect_error([&] { argmax(x, dim); }, {"argmax", "dimension"});
    expect_error([&] { sort(x, dim); }, {"sort", "dimension"});
    expect_error([&] { cumsum(x, dim); }, {"cumsum", "dimension"});
    expect_error([&] { flip(x, {dim}); }, {"flip", "dimension"});
    expect_error([&] { scatter(x, dim, place(x), 1); }, {"scatter", "dimension"});
  }
  expect_error([&] { topk(x, 2); }, {"topk: 2 of dimension -1 of ()"});
  expect_error([&] { topk(x, 0); }, {"topk: 0 of dimension -1 of ()"});
  expect_error([&] { index_select(x, 0, zeros({2}, DType::i64)); },
               {"index_select: an index (2,) of a number"});
  expect_error([&] { take_along_dim(x, places(x), 0); },
               {"take_along_dim: the index (1,) needs the rank of ()"});
}

}  // namespace
}  // namespace reprise
