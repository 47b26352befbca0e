// Views, copies, casts, joining and splitting.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::OpInput;

// Element i of the result is element `from(i)` of the input, or 0 where that is negative.
void check_movement(const char* name, const Shape& shape, const std::function<Tensor(const Tensor&)>& fn,
                    const std::function<int64_t(int64_t)>& from) {
  check_op(OpCase{.name = name,
                  .inputs = {{shape}},
                  .fn = [=](const TensorList& in) { return fn(in[0]); },
                  .reference =
                      [=](const TensorList& in) {
                        std::vector<double> x = in[0].to_vector<double>(), y;
                        int64_t count = fn(in[0]).numel();
                        for (int64_t i = 0; i < count; ++i) y.push_back(x[size_t(from(i))]);
                        return y;
                      },
                  .roundings = 0.5});  // values move, gradients are summed in expand alone
}

int64_t itself(int64_t i) { return i; }

TEST(Reshape, PassesEveryCheckOfAnOp) {
  check_movement(
      "reshape", {4, 6},
      [](const Tensor& x) {
        return reshape(x, {2, -1, 3});
      },
      itself);
  check_movement(
      "unsqueeze", {4, 6}, [](const Tensor& x) { return unsqueeze(x, 1); }, itself);
  check_movement(
      "unsqueeze at the end", {4, 6}, [](const Tensor& x) { return unsqueeze(x, -1); }, itself);
  check_movement(
      "squeeze", {4, 1, 6}, [](const Tensor& x) { return squeeze(x, 1); }, itself);
  check_movement("clone", {4, 6}, clone, itself);
}

TEST(Permute, PassesEveryCheckOfAnOp) {
  check_movement(
      "permute", {2, 3, 5},
      [](const Tensor& x) {
        return permute(x, {2, 0, 1});
      },
      [](int64_t i) { return i / 3 % 2 * 15 + i % 3 * 5 + i / 6; });
  check_movement(
      "transpose", {3, 5}, [](const Tensor& x) { return transpose(x, 0, -1); },
      [](int64_t i) { return i % 3 * 5 + i / 3; });
}

TEST(Slice, PassesEveryCheckOfAnOp) {
  check_movement(
      "slice", {3, 7}, [](const Tensor& x) { return slice(x, 1, 1, 6, 2); },
      [](int64_t i) { return i / 3 * 7 + 1 + i % 3 * 2; });
  check_movement(
      "slice from the end", {3, 7}, [](const Tensor& x) { return slice(x, -1, -3, -1); },
      [](int64_t i) { return i / 2 * 7 + 4 + i % 2; });
  check_movement(
      "select", {3, 7}, [](const Tensor& x) { return select(x, 0, -2); }, [](int64_t i) { return 7 + i; });
}

TEST(Expand, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "expand",
                  .inputs = {{{3, 1}}},
                  .fn =
                      [](const TensorList& in) {
                        return expand(in[0], {2, 3, 4});
                      },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> x = in[0].to_vector<double>(), y;
                        for (size_t i = 0; i < 24; ++i) y.push_back(x[i / 4 % 3]);
                        return y;
                      }});
}

TEST(Cast, PassesEveryCheckOfAnOp) {
  // Through f64 and back is exact.
  check_op(OpCase{.name = "cast",
                  .inputs = {{{3, 5}}},
                  .fn = [](const TensorList& in) { return cast(cast(in[0], DType::f64), in[0].dtype()); },
                  .reference = [](const TensorList& in) { return in[0].to_vector<double>(); }});
  Tensor x = Tensor::from<float>({1.5f, -2}, {2}).set_requires_grad();
  cast(x, DType::bf16).backward(ones({2}, DType::bf16));
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_FALSE(cast(x, DType::i64).requires_grad());
}

// Tensors of (2, 3, 4) one behind the other along `dim`: in turns, what each has of the dimensions from there on.
std::vector<double> joined(const TensorList& in, int dim) {
  const size_t run = dim == 0 ? 24 : dim == 1 ? 12 : 4;
  std::vector<double> y;
  for (size_t first = 0; first < 24; first += run)
    for (const Tensor& x : in) {
      const std::vector<double> numbers = x.to_vector<double>();
      y.insert(y.end(), numbers.begin() + ptrdiff_t(first), numbers.begin() + ptrdiff_t(first + run));
    }
  return y;
}

TEST(Concat, PassesEveryCheckOfAnOp) {
  for (int dim : {0, 1, -1})
    check_op(OpCase{.name = detail::join("concat along ", dim),
                    .inputs = {{{2, 3, 4}}, {{2, 3, 4}}, {{2, 3, 4}}},
                    .fn =
                        [=](const TensorList& in) {
                          return concat({in[0], in[1], in[2]}, dim);
                        },
                    .reference = [=](const TensorList& in) { return joined(in, dim); },
                    .empty_inputs = {{{0, 3, 4}}, {{0, 3, 4}}, {{0, 3, 4}}}});
  Tensor y = concat({full({2, 1}, 1), full({2, 3}, 2)}, 1);
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 2, 2, 1, 2, 2, 2}));
}

TEST(Stack, PassesEveryCheckOfAnOp) {
  check_op(OpCase{.name = "stack",
                  .inputs = {{{2, 3}}, {{2, 3}}},
                  .fn =
                      [](const TensorList& in) {
                        return stack({in[0], in[1]}, 1);
                      },
                  .reference =
                      [](const TensorList& in) {
                        std::vector<double> a = in[0].to_vector<double>(), b = in[1].to_vector<double>();
                        return std::vector<double>{a[0], a[1], a[2], b[0], b[1], b[2],
                                                   a[3], a[4], a[5], b[3], b[4], b[5]};
                      }});
}

TEST(Split, PassesEveryCheckOfAnOpWithAShorterLastPiece) {
  check_op(OpCase{.name = "split",
                  .inputs = {{{2, 7}}},
                  .fn =
                      [](const TensorList& in) {
                        TensorList parts = split(in[0], 3, 1);
                        EXPECT_EQ(parts.size(), 3u);
                        return concat({parts[0] * 2.0, parts[1] * 3.0, parts[2] * 5.0}, 1);
                      },
                  .reference =
                      [](const TensorList& in) {
                        const double factors[] = {2, 2, 2, 3, 3, 3, 5};
                        std::vector<double> x = in[0].to_vector<double>();
                        for (size_t i = 0; i < x.size(); ++i) x[i] *= factors[i % 7];
                        return x;
                      }});
  TensorList parts = split(arange(7), 3, 0);
  EXPECT_EQ(parts[2].to_vector<int64_t>(), (std::vector<int64_t>{6}));
}

TEST(Views, ShareStorageWhereStridesAllow) {
  Tensor x = zeros({4, 6});
  for (const Tensor& view : {reshape(x, {24}), transpose(x, 0, 1), slice(x, 0, 1, 3), select(x, 1, 2),
                             expand(unsqueeze(x, 0), {5, 4, 6}), squeeze(unsqueeze(x, 2), 2)})
    EXPECT_EQ(view.storage(), x.storage());
  EXPECT_NE(reshape(transpose(x, 0, 1), {24}).storage(), x.storage());
  EXPECT_NE(clone(x).storage(), x.storage());
}

TEST(Shapes, NameTheOpAndTheValuesInErrors) {
  Tensor x = zeros({4, 6});
  expect_error([&] { reshape(x, {5, -1}); }, {"reshape", "(4, 6)", "(5, -1)"});
  expect_error([&] { reshape(x, {-1, -1}); }, {"reshape", "-1"});
  expect_error([&] { slice(x, 1, 2, 9); }, {"slice", "(4, 6)"});
  expect_error([&] { select(x, 0, 4); }, {"select", "4"});
  expect_error([&] { squeeze(x, 0); }, {"squeeze", "(4, 6)"});
  expect_error([&] { expand(x, {5, 6}); }, {"expand", "(4, 6)", "(5, 6)"});
  expect_error([&] { concat({x, zeros({4, 5})}, 0); }, {"concat"});
  expect_error([&] { concat({}, 0); }, {"concat"});
  expect_error([&] { split(x, 0, 0); }, {"split"});
  expect_error([&] { permute(x, {0, 0}); }, {"permute"});
  expect_error([&] { transpose(x, 0, 2); }, {"transpose"});
}

TEST(Shapes, HandleTransposedEmptyTensors) {
  Tensor x = transpose(zeros({3, 0, 2}), 0, 2);  // (2, 0, 3)
  EXPECT_EQ(reshape(x, {0, 3}).numel(), 0);
  EXPECT_EQ(reshape(x, {0}).numel(), 0);
}

}  // namespace
}  // namespace reprise
