// Other arrangements of numbers, against loops over places.
#include "reprise/autograd/ops/tensor/arrangements.h"

#include <algorithm>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/index/along_dim.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

// Element i of the result is element from(i) of the input, or `otherwise` where that is negative.
void check_places(const char* name, const Shape& shape, const std::function<Tensor(const Tensor&)>& fn,
                  const std::function<int64_t(int64_t)>& from, double otherwise = 0) {
  check_op(OpCase{.name = name,
                  .inputs = {{shape}},
                  .fn = [=](const TensorList& in) { return fn(in[0]); },
                  .reference =
                      [=](const TensorList& in) {
                        const std::vector<double> x = in[0].to_vector<double>();
                        std::vector<double> y;
                        for (int64_t i = 0; i < fn(in[0]).numel(); ++i)
                          y.push_back(from(i) < 0 ? otherwise : x[size_t(from(i))]);
                        return y;
                      },
                  .roundings = 0.5});
}

TEST(Flatten, PassesEveryCheckOfAnOp) {
  check_places(
      "flatten", {2, 3, 4}, [](const Tensor& x) { return flatten(x); }, [](int64_t i) { return i; });
  check_places(
      "flatten behind the first", {2, 3, 4}, [](const Tensor& x) { return flatten(x, 1); },
      [](int64_t i) { return i; });
  const Tensor x = zeros({2, 3, 4, 5});
  EXPECT_EQ(flatten(x).shape(), Shape{120});
  EXPECT_EQ(flatten(x, 1).shape(), (Shape{2, 60}));
  EXPECT_EQ(flatten(x, 0, 1).shape(), (Shape{6, 4, 5}));
  EXPECT_EQ(flatten(x, -3, -2).shape(), (Shape{2, 12, 5}));
  EXPECT_EQ(flatten(scalar(1)).shape(), Shape{1});
  expect_error([&] { flatten(x, 2, 1); }, {"flatten: dimension 2 lies behind dimension 1 of (2, 3, 4, 5)"});
}

TEST(Unbind, PassesEveryCheckOfAnOp) {
  for (int64_t dim : {0, 1, -1})
    check_op(OpCase{.name = detail::join("unbind ", dim),
                    .inputs = {{{2, 3, 4}}},
                    .fn =
                        [=](const TensorList& in) {
                          TensorList slices = unbind(in[0], dim);
                          std::reverse(slices.begin(), slices.end());
                          return stack(slices, dim);
                        },
                    .composite = [=](const TensorList& in) { return flip(in[0], {dim}); },
                    .roundings = 0.5});
  EXPECT_EQ(unbind(zeros({0, 3})).size(), 0u);
  EXPECT_EQ(unbind(zeros({2, 3}), 1).at(2).shape(), Shape{2});
  expect_error([] { unbind(scalar(1)); }, {"unbind"});
}

// The places by hand: rows of 4, and of 3 in the transposed one.
TEST(Diagonal, PassesEveryCheckOfAnOp) {
  check_places(
      "diagonal", {3, 4}, [](const Tensor& x) { return diagonal(x); }, [](int64_t i) { return 5 * i; });
  check_places(
      "diagonal above", {3, 4}, [](const Tensor& x) { return diagonal(x, 2); },
      [](int64_t i) { return 2 + 5 * i; });
  check_places(
      "diagonal below", {3, 4}, [](const Tensor& x) { return diagonal(x, -1); },
      [](int64_t i) { return 4 + 5 * i; });
  check_places(
      "diagonal of other dimensions", {2, 3, 2}, [](const Tensor& x) { return diagonal(x, 0, 2, 0); },
      [](int64_t i) { return i / 2 * 2 + i % 2 * 7; });
  EXPECT_EQ(diagonal(zeros({3, 4})).shape(), Shape{3});
  EXPECT_EQ(diagonal(zeros({3, 4}), 2).shape(), Shape{2});
  EXPECT_EQ(diagonal(zeros({3, 4}), 7).shape(), Shape{0});
  EXPECT_EQ(diagonal(zeros({2, 3, 2}), 0, 2, 0).shape(), (Shape{3, 2}));
  expect_error([] { diagonal(zeros({3, 4}), 0, 1, -1); }, {"diagonal: dimensions 1 and -1 of (3, 4)"});
}

TEST(Movedim, PassesEveryCheckOfAnOp) {
  check_places(
      "movedim", {2, 3, 5}, [](const Tensor& x) { return movedim(x, 0, 2); },
      [](int64_t i) { return i % 2 * 15 + i / 2; });
  check_places(
      "movedim to the front", {2, 3, 5}, [](const Tensor& x) { return movedim(x, -1, 0); },
      [](int64_t i) { return i % 6 * 5 + i / 6; });
  const Tensor x = zeros({2, 3, 4, 5});
  EXPECT_EQ(movedim(x, 1, 3).shape(), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(movedim(x, 3, 1).shape(), (Shape{2, 5, 3, 4}));
  EXPECT_EQ(movedim(x, 1, 1).shape(), x.shape());
  EXPECT_EQ(movedim(x, 1, 2).shape(), (Shape{2, 4, 3, 5}));
}

TEST(Movedim, OfSeveralDimensionsPassesEveryCheckOfAnOp) {
  check_places(
      "movedim of two", {2, 3, 5},
      [](const Tensor& x) {
        return movedim(x, {0, -2}, {2, 0});
      },
      [](int64_t i) { return (i % 2 * 3 + i / 10) * 5 + i / 2 % 5; });
  const Tensor x = zeros({2, 3, 4, 5});
  EXPECT_EQ(movedim(x, {0, 3}, {1, 0}).shape(), (Shape{5, 2, 3, 4}));
  EXPECT_EQ(movedim(x, {3, 2, 1, 0}, {0, 1, 2, 3}).shape(), (Shape{5, 4, 3, 2}));
  EXPECT_EQ(movedim(x, {1}, {-1}).shape(), (Shape{2, 4, 5, 3}));
  EXPECT_EQ(movedim(x, Dims{}, Dims{}).shape(), x.shape());
  expect_error([&] { movedim(x, {0, 1}, Dims{2}); }, {"movedim: dimensions (0, 1) to (2,)"});
  expect_error([&] { movedim(x, {0, -4}, {2, 3}); }, {"movedim: dimension 0 twice"});
  expect_error([&] { movedim(x, {0, 1}, {3, -1}); }, {"movedim: dimension 3 twice"});
  expect_error([&] { movedim(x, 0, 4); }, {"movedim: dimension 4"});
}

TEST(Chunk, PassesEveryCheckOfAnOp) {
  check_places(
      "chunk", {4, 7}, [](const Tensor& x) { return chunk(x, 3, 1)[1]; },
      [](int64_t i) { return i / 3 * 7 + 3 + i % 3; });
  const Tensor x = zeros({7});
  const TensorList parts = chunk(x, 3, 0);
  EXPECT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].shape(), Shape{1});
  EXPECT_EQ(chunk(x, 5, 0).size(), 4u) << "as PyTorch: pieces of 2";
  expect_error([&] { chunk(x, 0, 0); }, {"chunk: needs at least one piece, got 0"});
}

TEST(Outer, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "outer",
                  .inputs = {{{4}}, {{3}}},
                  .fn = [](const TensorList& in) { return outer(in[0], in[1]); },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> y;
                        for (double a : in[0].to_vector<double>())
                          for (double b : in[1].to_vector<double>()) y.push_back(a * b);
                        return y;
                      }});
  expect_error([] { outer(zeros({2, 2}), zeros({2})); }, {"outer: needs vectors, got (2, 2) and (2,)"});
}

TEST(MaskedFill, PassesEveryCheckOfAnOp) {
  const Tensor mask = Tensor::from<uint8_t>({0, 1, 0}, {3}).to(DType::boolean);
  check_places(
      "masked_fill", {4, 3}, [=](const Tensor& x) { return masked_fill(x, mask.to(x.device()), -2); },
      [](int64_t i) { return i % 3 == 1 ? -1 : i; }, -2);
  expect_error(
      [&] {
        masked_fill(zeros({3}), zeros({4, 2}, DType::boolean), 0);
      },
      {"masked_fill: ", "(4, 2)", "(3,)"});
}

TEST(Triangles, PassEveryCheckOfAnOp) {
  for (int64_t diagonal : {-5, -1, 0, 2, 9}) {
    check_places(
        "tril", {2, 4, 5}, [=](const Tensor& x) { return tril(x, diagonal); },
        [=](int64_t i) { return i % 5 - i / 5 % 4 <= diagonal ? i : -1; });
    check_places(
        "triu", {2, 4, 5}, [=](const Tensor& x) { return triu(x, diagonal); },
        [=](int64_t i) { return i % 5 - i / 5 % 4 >= diagonal ? i : -1; });
  }
  expect_error([] { tril(zeros({3})); }, {"tril: needs matrices (..., M, N), got (3,)"});
}

}  // namespace
}  // namespace reprise
