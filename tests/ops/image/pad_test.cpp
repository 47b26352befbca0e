// Borders of one value, and mirrored ones.
#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

std::vector<double> padded(const Tensor& x, const PadOptions& by) {
  const std::vector<double> pixels = x.to_vector<double>();
  const int64_t height = x.size(-2), width = x.size(-1);
  auto mirrored = [](int64_t i, int64_t size) { return i < 0 ? -i : i < size ? i : 2 * (size - 1) - i; };
  std::vector<double> y;
  for (int64_t plane = 0; plane < x.numel() / (height * width); ++plane)
    for (int64_t i = -by.top; i < height + by.bottom; ++i)
      for (int64_t j = -by.left; j < width + by.right; ++j) {
        const bool inside = i >= 0 && i < height && j >= 0 && j < width;
        const int64_t row = mirrored(i, height), column = mirrored(j, width);
        y.push_back(inside || by.mode == PadMode::reflect
                        ? pixels[size_t((plane * height + row) * width + column)]
                        : by.value);
      }
  return y;
}

TEST(Pad, PassesEveryCheckOfAnOp) {
  const PadOptions borders[] = {{.top = 1, .bottom = 2, .left = 3, .right = 0, .value = 1.5},
                                {.top = 0, .bottom = 1, .left = 0, .right = 2},
                                {.top = 2, .bottom = 1, .left = 4, .right = 3, .mode = PadMode::reflect},
                                {.bottom = 2, .mode = PadMode::reflect}};
  for (const PadOptions& by : borders)
    for (const Shape& shape : {Shape{3, 5}, Shape{2, 2, 3, 5}})
      check_op(OpCase{
          .name = detail::join("pad ", shape, " by ", by.top, " ", by.bottom, " ", by.left, " ", by.right),
          .inputs = {{shape}},
          .fn = [=](const TensorList& in) { return pad(in[0], by); },
          .reference = [=](const TensorList& in) { return padded(in[0], by); },
          .roundings = 8});  // a pixel's gradient is a sum of up to nine
}

TEST(Pad, OfManyImagesIsExactAcrossThreads) {
  for (PadMode mode : {PadMode::constant, PadMode::reflect})
    check_op(
        OpCase{.name = detail::join("pad, mode ", int(mode)),
               .inputs = {{{1, 2, 2}}},
               .fn = [=](const TensorList& in) { return pad(in[0], {.top = 1, .right = 1, .mode = mode}); },
               .reference =
                   [=](const TensorList& in) { return padded(in[0], {.top = 1, .right = 1, .mode = mode}); },
               .empty_inputs = {{{0, 2, 2}}},
               .large_inputs = {{{7, 64, 97}}}});
}

TEST(Pad, TakesIntegersWithAConstantBorder) {
  Tensor y = pad(Tensor::from<int64_t>({1, 2}, {1, 2}), {.left = 1, .value = 7});
  EXPECT_EQ(y.to_vector<int64_t>(), (std::vector<int64_t>{7, 1, 2}));
}

TEST(Pad, RefusesWhatDoesNotFit) {
  Tensor x = zeros({3, 5});
  expect_error([&] { pad(zeros({3}), {.left = 1}); }, "pad: needs at least two dimensions, got (3,)");
  expect_error([&] { pad(x, {.top = -1}); }, "pad: borders of -1, 0, 0, 0: none may be negative");
  expect_error([&] { pad(x, {.top = 3, .mode = PadMode::reflect}); },
               "pad: an image of 3 x 5 has too few pixels to mirror for borders of 3, 0, 0, 0");
  expect_error([&] { pad(x, {.right = 5, .mode = PadMode::reflect}); }, "borders of 0, 0, 0, 5");
  expect_error([&] { pad(zeros({3, 5}, DType::i64), {.mode = PadMode::reflect}); }, {"pad", "i64"});
  expect_error([&] { pad(zeros({3, 5}, DType::i64), {.value = 0.5}); }, {"pad: 0.5"});
}

}  // namespace
}  // namespace reprise
