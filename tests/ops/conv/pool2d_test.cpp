// Maxima and means of windows against loops; tests/ops/golden_test.cpp compares them with PyTorch's.
#include <algorithm>
#include <numeric>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

struct Pool {
  const char* name;
  Shape x;
  Size2 kernel, stride, padding, count;  ///< count: of windows
  bool ceil_mode = false;
};
// Rounded up, 6 pixels have a third window of 3 by steps of 2, which covers two; 5 with a padding of 1 have no more:
// it would begin behind the image.
const Pool kPools[] = {
    {"halves", {2, 2, 4, 6}, 2, 2, 0, {2, 3}},
    {"overlapping and padded", {1, 2, 5, 7}, 3, 2, 1, {3, 4}},
    {"oblong", {2, 1, 5, 5}, {2, 3}, {1, 2}, {1, 0}, {6, 2}},
    {"rounded up", {1, 2, 6, 5}, 3, 2, 0, {3, 2}, true},
    {"rounded up and padded", {1, 1, 6, 5}, {2, 2}, {3, 4}, 1, {3, 2}, true},
};

const Pool kQuarters = {"quarters", {1, 1, 4, 4}, 2, 2, 0, {2, 2}};

/// `value` of the pixels of each window, and of how many of its places lie in the image or its padding.
std::vector<double> each_window(const Pool& pool, const Tensor& x, const auto& value) {
  const std::vector<double> pixels = x.to_vector<double>();
  const int64_t height = pool.x[2], width = pool.x[3];
  std::vector<double> y;
  for (int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane)
    for (int64_t i = 0; i < pool.count.height; ++i)
      for (int64_t j = 0; j < pool.count.width; ++j) {
        std::vector<double> seen;
        int64_t places = 0;
        for (int64_t p = 0; p < pool.kernel.height; ++p)
          for (int64_t q = 0; q < pool.kernel.width; ++q) {
            const int64_t row = i * pool.stride.height - pool.padding.height + p;
            const int64_t column = j * pool.stride.width - pool.padding.width + q;
            places += row < height + pool.padding.height && column < width + pool.padding.width;
            if (row >= 0 && row < height && column >= 0 && column < width)
              seen.push_back(pixels[size_t((plane * height + row) * width + column)]);
          }
        y.push_back(value(seen, places));
      }
  return y;
}

double max_of(const std::vector<double>& seen, int64_t) {
  return *std::max_element(seen.begin(), seen.end());
}

TEST(MaxPool2d, PassesEveryCheckOfAnOp) {
  for (const Pool& pool : kPools)
    check_op(OpCase{.name = pool.name,
                    .inputs = {{pool.x}},
                    .fn =
                        [=](const TensorList& in) {
                          return max_pool2d(
                              in[0], pool.kernel,
                              {.stride = pool.stride, .padding = pool.padding, .ceil_mode = pool.ceil_mode});
                        },
                    .reference = [=](const TensorList& in) { return each_window(pool, in[0], max_of); },
                    .roundings = 4});  // gradients of a pixel that is the maximum of four windows
}

TEST(MaxPool2d, OfManyImagesIsExactAcrossThreads) {
  check_op(OpCase{.name = "max_pool2d by its kernel's size",
                  .inputs = {{{1, 1, 4, 4}}},
                  .fn = [](const TensorList& in) { return max_pool2d(in[0], 2); },
                  .reference = [](const TensorList& in) { return each_window(kQuarters, in[0], max_of); },
                  .empty_inputs = {{{0, 1, 4, 4}}},
                  .large_inputs = {{{3, 5, 64, 48}}}});
}

TEST(MaxPool2d, SpreadsItsWindow) {
  Tensor x = reshape(arange(9, DType::f32), {1, 1, 3, 3});
  EXPECT_EQ(max_pool2d(x, 2, {.stride = 1, .dilation = 2}).to_vector<double>(), (std::vector<double>{8}));
}

double mean_of(const std::vector<double>& seen, int64_t places) {
  return std::accumulate(seen.begin(), seen.end(), 0.0) / double(places);
}

TEST(AvgPool2d, PassesEveryCheckOfAnOp) {
  for (const Pool& pool : kPools)
    for (bool count_include_pad : {false, true})
      check_op(OpCase{.name = detail::join(pool.name, ", padding counts: ", count_include_pad),
                      .inputs = {{pool.x}},
                      .fn =
                          [=](const TensorList& in) {
                            return avg_pool2d(in[0], pool.kernel,
                                              {.stride = pool.stride,
                                               .padding = pool.padding,
                                               .ceil_mode = pool.ceil_mode,
                                               .count_include_pad = count_include_pad});
                          },
                      .reference =
                          [=](const TensorList& in) {
                            return each_window(
                                pool, in[0], [=](const std::vector<double>& seen, int64_t places) {
                                  return mean_of(seen, count_include_pad ? places : int64_t(seen.size()));
                                });
                          },
                      .roundings = 16});
}

TEST(AvgPool2d, OfManyImagesIsExactAcrossThreads) {
  check_op(OpCase{.name = "avg_pool2d by its kernel's size",
                  .inputs = {{{1, 1, 4, 4}}},
                  .fn = [](const TensorList& in) { return avg_pool2d(in[0], 2); },
                  .reference = [](const TensorList& in) { return each_window(kQuarters, in[0], mean_of); },
                  .empty_inputs = {{{0, 1, 4, 4}}},
                  .large_inputs = {{{3, 5, 64, 48}}}});
}

TEST(Pool2d, RefusesWhatDoesNotFit) {
  Tensor x = zeros({1, 2, 3, 4});
  expect_error([&] { max_pool2d(x, 4); },
               "max_pool2d: images (1, 2, 3, 4) are smaller than the kernel of (4, 4)");
  expect_error([&] { avg_pool2d(x, 4); },
               "avg_pool2d: images (1, 2, 3, 4) are smaller than the kernel of (4, 4)");
  expect_error([&] { max_pool2d(x, 2, {.padding = 2}); },
               "max_pool2d: padding of (2, 2) is more than half the kernel of (2, 2)");
  expect_error([&] { max_pool2d(x, 0); },
               "max_pool2d: the kernel's size must be in [1, 2147483648), got (0, 0)");
  expect_error([&] { max_pool2d(x, 2, {.stride = 0}); }, {"max_pool2d", "stride"});
  expect_error([&] { max_pool2d(x, 2, {.dilation = 0}); }, {"max_pool2d", "dilation"});
  expect_error(
      [&] {
        avg_pool2d(zeros({2, 3, 4}), 2);
      },
      "avg_pool2d: needs images (N, C, H, W), got (2, 3, 4)");
  expect_error([&] { avg_pool2d(zeros({1, 1, 4, 4}, DType::i64), 2); }, {"avg_pool2d", "i64"});
}

}  // namespace
}  // namespace reprise
