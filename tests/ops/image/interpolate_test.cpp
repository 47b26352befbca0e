// Images of another size, against weights written out here; tests/ops/golden_test.cpp compares them with PyTorch's.
#include <algorithm>
#include <cmath>

#include "reprise/autograd/ops.h"
#include "reprise/tests/support/op_case.h"

namespace reprise {
namespace {

using testing::check_op;
using testing::expect_error;
using testing::OpCase;

/// Keys 1981, as its two polynomials stand there for |x| < 1 and |x| < 2.
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

/// What pixel j of `from` weighs in pixel i of `to`.
double weight(int64_t i, int64_t j, int64_t from, int64_t to, const InterpolateOptions& o) {
  if (o.mode == Interpolation::nearest) return j == i * from / to;
  const bool linear = o.mode == Interpolation::bilinear;
  auto kernel = [&](double x) {
    return linear ? std::max(0.0, 1 - std::fabs(x)) : cubic(x, o.antialias ? -0.5 : -0.75);
  };
  const double scale = !o.align_corners ? double(from) / double(to)
                       : to > 1         ? double(from - 1) / double(to - 1)
                                        : 0;
  if (o.antialias) {
    const double centre = scale * (double(i) + 0.5), stretch = std::max(1.0, scale);
    double sum = 0;
    for (int64_t k = 0; k < from; ++k) sum += kernel((double(k) + 0.5 - centre) / stretch);
    return kernel((double(j) + 0.5 - centre) / stretch) / sum;
  }
  const double at = o.align_corners ? double(i) * scale : (double(i) + 0.5) * scale - 0.5;
  double total = 0;
  for (int64_t k = -3; k < from + 3; ++k)  // pixels beyond the edge are the last ones
    if (std::clamp<int64_t>(k, 0, from - 1) == j) total += kernel(at - double(k));
  return total;
}

std::vector<double> interpolated(const Tensor& x, Size2 size, const InterpolateOptions& options) {
  const std::vector<double> pixels = x.to_vector<double>();
  const int64_t height = x.size(2), width = x.size(3);
  std::vector<double> y;
  for (int64_t plane = 0; plane < x.size(0) * x.size(1); ++plane)
    for (int64_t i = 0; i < size.height; ++i)
      for (int64_t j = 0; j < size.width; ++j) {
        double sum = 0;
        for (int64_t p = 0; p < height; ++p)
          for (int64_t q = 0; q < width; ++q)
            sum += weight(i, p, height, size.height, options) * weight(j, q, width, size.width, options) *
                   pixels[size_t((plane * height + p) * width + q)];
        y.push_back(sum);
      }
  return y;
}

const InterpolateOptions kOptions[] = {
    {},
    {.mode = Interpolation::bilinear},
    {.mode = Interpolation::bilinear, .align_corners = true},
    {.mode = Interpolation::bilinear, .antialias = true},
    {.mode = Interpolation::bicubic},
    {.mode = Interpolation::bicubic, .align_corners = true},
    {.mode = Interpolation::bicubic, .antialias = true},
};

// Places of pixels are rounded, then their weights, of which cubic ones cancel.
TEST(Interpolate, PassesEveryCheckOfAnOp) {
  for (const InterpolateOptions& options : kOptions)
    for (Size2 size : {Size2{8, 5}, Size2{2, 3}, Size2{1, 7}})
      check_op(OpCase{
          .name = detail::join("mode ", int(options.mode), ", corners ", options.align_corners,
                               ", antialias ", options.antialias, ", to ", size.height, " x ", size.width),
          .inputs = {{{2, 1, 5, 7}}},
          .fn = [=](const TensorList& in) { return interpolate(in[0], size, options); },
          .reference = [=](const TensorList& in) { return interpolated(in[0], size, options); },
          .roundings = 64});
}

TEST(Interpolate, OfManyImagesIsExactAcrossThreads) {
  constexpr Size2 size{33, 70};
  const InterpolateOptions options{.mode = Interpolation::bicubic, .antialias = true};
  check_op(OpCase{.name = "bicubic",
                  .inputs = {{{1, 1, 4, 4}}},
                  .fn = [&](const TensorList& in) { return interpolate(in[0], size, options); },
                  .reference = [&](const TensorList& in) { return interpolated(in[0], size, options); },
                  .roundings = 64,
                  .empty_inputs = {{{0, 1, 4, 4}}},
                  .large_inputs = {{{3, 5, 64, 48}}}});
}

TEST(Interpolate, RefusesWhatDoesNotFit) {
  Tensor x = zeros({1, 2, 3, 4});
  expect_error([&] { interpolate(x, 0); }, "interpolate: the size must be positive, is (0, 0)");
  expect_error(
      [&] {
        interpolate(zeros({2, 3, 4}), 2);
      },
      "interpolate: needs images (N, C, H, W), got (2, 3, 4)");
  expect_error([&] { interpolate(zeros({1, 2, 0, 4}), 2); }, "got (1, 2, 0, 4)");
  expect_error([&] { interpolate(x, 2, {.antialias = true}); },
               "interpolate: nearest has neither align_corners nor antialias");
  expect_error([&] { interpolate(x, 2, {.align_corners = true}); },
               "interpolate: nearest has neither align_corners nor antialias");
  expect_error([&] { interpolate(zeros({1, 1, 2, 2}, DType::u8), 2); }, {"interpolate", "u8"});
}

}  // namespace
}  // namespace reprise
