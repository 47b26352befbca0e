// Borders of one value, and cuts, against loops over the places of the result.
#include "reprise/autograd/ops/image/constant_pad.h"

#include <limits>
#include <utility>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;
using testing::test_device;
using Borders = std::vector<int64_t>;

// Place i of a dimension of the result is place i - (the border before it) of x, or outside of it.
std::vector<double> padded(const Tensor& x, const Borders& borders, double value) {
  Shape shape = x.shape();
  Dims before = Dims::filled(x.rank(), 0);
  for (int k = 0; k < int(borders.size() / 2); ++k) {
    before[x.rank() - 1 - k] = borders[size_t(2 * k)];
    shape[x.rank() - 1 - k] += borders[size_t(2 * k)] + borders[size_t(2 * k + 1)];
  }
  const std::vector<double> numbers = x.to_vector<double>();
  std::vector<double> y;
  for (int64_t i = 0; i < numel_of(shape); ++i) {
    int64_t rest = i, from = 0, stride = 1;
    bool inside = true;
    for (int d = x.rank() - 1; d >= 0; --d) {
      const int64_t place = rest % shape[d] - before[d];
      rest /= shape[d];
      inside &= place >= 0 && place < x.size(d);
      from += place * stride;
      stride *= x.size(d);
    }
    y.push_back(inside ? numbers[size_t(from)] : value);
  }
  return y;
}

TEST(ConstantPad, PassesEveryCheckOfAnOp) {
  const std::pair<Shape, Borders> cases[] = {{{5}, {2, 1}},
                                             {{5}, {-2, 3}},
                                             {{5}, {-1, -2}},
                                             {{3, 5}, {1, 0, 0, 2}},
                                             {{3, 5}, {-2, 1, 4, -1}},
                                             {{3, 5}, {0, 0, -1, 0}},
                                             {{2, 3, 5}, {1, -1, 0, 2, 3, -1}},
                                             {{2, 3, 5}, {}}};
  for (const auto& [shape, borders] : cases)
    check_op(OpCase{.name = detail::join("constant_pad of ", shape, " by ", Dims(borders)),
                    .inputs = {{shape}},
                    .fn = [&](const TensorList& in) { return constant_pad(in[0], borders, 1.5); },
                    .reference = [&](const TensorList& in) { return padded(in[0], borders, 1.5); },
                    .roundings = 0.5});
  check_op(OpCase{.name = "constant_pad",
                  .inputs = {{{2, 3}}},
                  .fn =
                      [](const TensorList& in) {
                        return constant_pad(in[0], {-1, 2, 1, 0});
                      },
                  .reference =
                      [](const TensorList& in) {
                        return padded(in[0], {-1, 2, 1, 0}, 0);
                      },
                  .empty_inputs = {{{0, 3}}},
                  .large_inputs = {{{701, 307}}}});
}

// The dimensions one after the other, each from what was padded before.
std::vector<double> bordered(const Tensor& x, const Borders& borders, Border border) {
  std::vector<double> numbers = x.to_vector<double>();
  Shape shape = x.shape();
  for (int k = 0; k < int(borders.size() / 2); ++k) {
    const int d = x.rank() - 1 - k;
    const int64_t first = borders[size_t(2 * k)], size = shape[d],
                  grown = size + first + borders[size_t(2 * k + 1)];
    int64_t inner = 1;
    for (int e = d + 1; e < x.rank(); ++e) inner *= shape[e];
    std::vector<double> y;
    for (int64_t outer = 0; outer < int64_t(numbers.size()) / size / inner; ++outer)
      for (int64_t i = -first; i < grown - first; ++i)
        for (int64_t j = 0; j < inner; ++j) {
          int64_t from = i;
          if (i < 0) from = border == Border::reflect ? -i : border == Border::replicate ? 0 : i + size;
          if (i >= size)
            from = border == Border::reflect     ? 2 * size - 2 - i
                   : border == Border::replicate ? size - 1
                                                 : i - size;
          y.push_back(numbers[size_t((outer * size + from) * inner + j)]);
        }
    numbers = y;
    shape[d] = grown;
  }
  return numbers;
}

TEST(PadByItsOwnElements, PassesEveryCheckOfAnOp) {
  const std::pair<Shape, Borders> cases[] = {{{5}, {4, 2}},
                                             {{2, 3, 5}, {2, 1}},
                                             {{2, 3, 5}, {-2, 3, 2, 0}},
                                             {{3, 4, 2, 3}, {1, 2, 0, 1, 3, -1}},
                                             {{5}, {-1, -2}}};
  for (Border border : {Border::reflect, Border::replicate, Border::circular})
    for (const auto& [shape, borders] : cases)
      check_op(OpCase{.name = detail::join("pad of ", shape, " by ", Dims(borders), " border ", int(border)),
                      .inputs = {{shape}},
                      .fn = [&](const TensorList& in) { return pad(in[0], borders, border); },
                      .reference = [&](const TensorList& in) { return bordered(in[0], borders, border); },
                      .roundings = 32});  // a corner's gradient is a sum of many
}

// The values that PyTorch's documentation shows for its padding modules.
TEST(PadByItsOwnElements, GivesPyTorchsExamplesInAnyDtype) {
  for (DType dtype : {DType::i64, DType::u8, DType::boolean, DType::f16, DType::f32}) {
    const Tensor x = arange(4).to(dtype).reshape({1, 1, 4}).to(test_device());
    auto is = [&](const Tensor& y, const std::vector<int64_t>& want) {
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_TRUE(testing::same_bits(
          y, Tensor::from(want, {1, 1, int64_t(want.size())}).to(dtype).to(test_device())));
    };
    is(pad(x, {2, 2}, Border::reflect), {2, 1, 0, 1, 2, 3, 2, 1});
    is(pad(x, {3, 1}, Border::reflect), {3, 2, 1, 0, 1, 2, 3, 2});
    is(pad(x, {2, 2}, Border::replicate), {0, 0, 0, 1, 2, 3, 3, 3});
    is(pad(x, {3, 1}, Border::circular), {1, 2, 3, 0, 1, 2, 3, 0});
    is(pad(x, {4, 4}, Border::circular), {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3});
  }
  EXPECT_EQ(pad(zeros({1}), {7, 0}, Border::replicate).shape(), Shape{8});
  EXPECT_EQ(pad(zeros({0, 2}), {1, 1}, Border::circular).shape(), (Shape{0, 4}));
  const Tensor x = zeros({3});
  pad(x, {}, Border::reflect).fill_(1);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>(3, 0.0)));
}

TEST(PadByItsOwnElements, RefusesBordersThatItsElementsCannotGive) {
  const Tensor x = zeros({2, 4});
  expect_error(
      [&] {
        pad(x, {4, 0}, Border::reflect);
      },
      "pad: borders of 4 and 0 are longer than dimension 1 of (2, 4) can give");
  expect_error(
      [&] {
        pad(x, {0, 5}, Border::circular);
      },
      "pad: borders of 0 and 5 are longer than dimension 1");
  expect_error([&] { pad(zeros({0}), {1, 0}, Border::replicate); }, "pad: borders of 1 and 0 are longer");
  expect_error(
      [&] {
        pad(x, {-3, -2}, Border::circular);
      },
      "pad: borders of -3 and -2 do not fit dimension 1");
  expect_error([&] { pad(x, {1}, Border::circular); }, "pad: 1 borders of a tensor of shape (2, 4)");
}

TEST(ConstantPad, TakesAnyDtypeAndIsACopy) {
  EXPECT_EQ(constant_pad(Tensor::from<int64_t>({1, 2}, {2}), {1, 0}, 7).to_vector<int64_t>(),
            (std::vector<int64_t>{7, 1, 2}));
  const Tensor mask = constant_pad(ones({1}, DType::boolean), {0, 1});
  EXPECT_EQ(mask.dtype(), DType::boolean);
  EXPECT_EQ(mask.to_vector<double>(), (std::vector<double>{1, 0}));
  EXPECT_EQ(constant_pad(scalar(3), {}).item(), 3);
  EXPECT_EQ(constant_pad(zeros({3}), {-1, -2}).shape(), Shape{0});
  const Tensor x = zeros({3});
  constant_pad(x, {-1, 0}).fill_(1);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>(3, 0.0)));
}

TEST(ConstantPad, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({3, 5});
  expect_error([&] { constant_pad(x, {1}); }, "constant_pad: 1 borders of a tensor of shape (3, 5)");
  expect_error([&] { constant_pad(x, {0, 0, 0, 0, 0, 0}); }, "constant_pad: 6 borders");
  expect_error(
      [&] {
        constant_pad(x, {0, 0, -2, -2});
      },
      "constant_pad: borders of -2 and -2 do not fit dimension 0 of (3, 5)");
  expect_error([&] { constant_pad(x, {-6, 4}); }, "borders of -6 and 4 do not fit dimension 1");
  expect_error([&] { constant_pad(x, {std::numeric_limits<int64_t>::min(), 0}); }, "constant_pad");
  expect_error([&] { constant_pad(x, {std::numeric_limits<int64_t>::max(), 1}); }, "constant_pad");
  expect_error([&] { constant_pad(x, {int64_t(1) << 59, 0}); }, "constant_pad");
  expect_error([&] { constant_pad(zeros({3}, DType::i64), {1, 1}, 0.5); }, "constant_pad", "0.5");
  expect_error([&] { constant_pad(zeros({3}, DType::i64), {-1, 0}, 0.5); }, "constant_pad", "0.5");
}

}  // namespace
}  // namespace reprise
