// Maxima of windows and their gradients against loops over every window.
#include "reprise/kernels/conv/max_pool2d.h"

#include <limits>

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

struct Case {
  Shape x;
  Windows windows;
  Size2 count;  ///< of windows
  Shape y() const { return {x[0], x[1], count.height, count.width}; }
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{2, 3, 7, 9}, {.kernel = 3, .stride = 2, .padding = 1}, {4, 5}},  // the common one
      {{1, 2, 6, 4}, {.kernel = 2, .stride = 2}, {3, 2}},
      {{2, 1, 5, 8}, {.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 0}}, {6, 3}},
      {{1, 1, 9, 9}, {.kernel = 3, .stride = 2, .padding = 1, .dilation = 2}, {4, 4}},
      {{1, 2, 6, 6}, {.kernel = 3, .stride = 2}, {3, 3}},  // rounded up: windows over the edge
      {{1, 1, 7, 7}, {.kernel = 2, .stride = 3}, {2, 2}},  // pixels that no window covers
      {{1, 3, 40, 30}, {.kernel = 5, .stride = 1, .padding = 2}, {40, 30}},  // several blocks of threads
  };
  return all;
}

/// Calls body(window, pixel) in the order of windows, and of pixels in row order; both count through all planes.
template <class Body>
void each_pixel(const Case& k, Body&& body) {
  const auto& [kernel, stride, padding, dilation] = k.windows;
  int64_t window = 0;
  for (int64_t plane = 0; plane < k.x[0] * k.x[1]; ++plane)
    for (int64_t i = 0; i < k.count.height; ++i)
      for (int64_t j = 0; j < k.count.width; ++j, ++window)
        for (int64_t p = 0; p < kernel.height; ++p)
          for (int64_t q = 0; q < kernel.width; ++q) {
            const int64_t row = i * stride.height - padding.height + p * dilation.height;
            const int64_t column = j * stride.width - padding.width + q * dilation.width;
            if (row >= 0 && row < k.x[2] && column >= 0 && column < k.x[3])
              body(size_t(window), size_t((plane * k.x[2] + row) * k.x[3] + column));
          }
}

/// The pixel of each window's maximum.
std::vector<size_t> maxima(const Case& k, const std::vector<double>& x) {
  std::vector<size_t> best(size_t(numel_of(k.y())), x.size());
  each_pixel(k, [&](size_t window, size_t pixel) {
    if (best[window] == x.size() || x[pixel] > x[best[window]] || std::isnan(x[pixel])) best[window] = pixel;
  });
  return best;
}

void check_case(const Case& k, DType dtype, const std::function<double(int64_t)>& value) {
  Array x(k.x, dtype), y(k.y(), dtype), places(k.y(), DType::i32), dy(k.y(), dtype), dx(k.x, dtype);
  x.fill_with(value);
  dy.randomize(2);
  run_kernel(max_pool2d, x.view(), k.windows, y.view(), places.view());
  const std::vector<double> pixels = x.values(), gradients = dy.values();
  std::vector<double> want_y, want_places, want_dx(pixels.size());
  for (size_t pixel : maxima(k, pixels)) {
    want_dx[pixel] += gradients[want_y.size()];
    want_y.push_back(pixels[pixel]);
    want_places.push_back(double(pixel % size_t(k.x[2] * k.x[3])));
  }
  expect_near(y.values(), want_y, 0, "y");
  EXPECT_EQ(places.values(), want_places);
  run_kernel(max_pool2d_dx, dy.view(), places.view(), k.windows, dx.view());
  // Sums of up to 25 numbers of at most 4; half types round once.
  const double roundings = dtype == DType::f32 || dtype == DType::f64 ? 100 : 1;
  expect_near(dx.values(), want_dx, roundings * epsilon_of(dtype), "dx");
  EXPECT_TRUE(y.surroundings_untouched() && places.surroundings_untouched() && dx.surroundings_untouched());
}

TEST(MaxPool2d, IsTheLoopOverWindows) {
  for (const Case& k : cases())
    for (DType dtype : floating_dtypes)
      check_case(k, dtype, [](int64_t i) { return double(philox_block(1, 0, uint64_t(i))[0] % 251) - 300; });
}

TEST(MaxPool2d, GivesTheGradientToTheFirstOfEquals) {
  for (const Case& k : cases())
    check_case(k, DType::f32, [](int64_t i) { return double(philox_block(1, 0, uint64_t(i))[0] % 3); });
}

TEST(MaxPool2d, LetsNanWinAndTakesMinusInfinity) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Case& k : cases()) {
    check_case(k, DType::f32, [](int64_t i) { return i % 7 == 3 ? std::nan("") : double(i % 5); });
    check_case(k, DType::f32, [](int64_t) { return -infinity; });
  }
}

TEST(MaxPool2d, IsTheSameAtAnyThreadCount) {
  const Case k{{3, 5, 33, 40}, {.kernel = 3, .stride = 2, .padding = 1}, {17, 20}};
  expect_same_at_any_thread_count([&] {
    Array x(k.x, DType::f32), y(k.y(), DType::f32), places(k.y(), DType::i32), dx(k.x, DType::f32);
    x.randomize(1);
    run_kernel(max_pool2d, x.view(), k.windows, y.view(), places.view());
    run_kernel(max_pool2d_dx, y.view(), places.view(), k.windows, dx.view());
    return joined(y.values(), dx.values());
  });
}

TEST(MaxPool2d, RefusesWhatDoesNotFit) {
  Array x({1, 2, 5, 5}, DType::f32), y({1, 2, 3, 3}, DType::f32), places({1, 2, 3, 3}, DType::i32);
  const Windows windows{.kernel = 3, .stride = 2, .padding = 1};
  auto error = [&](const TensorView& image, const Windows& w, const TensorView& result,
                   const TensorView& place) { return error_of(max_pool2d, image, w, result, place); };
  EXPECT_EQ(error(x.view(), windows, y.view(), places.view()), "");
  Array other({1, 3, 3, 3}, DType::f32), half({1, 2, 3, 3}, DType::f16), wide({1, 2, 3, 3}, DType::i64);
  Array turned({1, 2, 5, 5}, DType::f32, Layout::reversed), more({1, 2, 5, 3}, DType::f32);
  Array more_places({1, 2, 5, 3}, DType::i32);
  EXPECT_EQ(error(x.view(), windows, other.view(), places.view()),
            "max_pool2d: images (1, 2, 5, 5) and windows (1, 3, 3, 3) do not fit");
  EXPECT_EQ(error(x.view(), windows, half.view(), places.view()),
            "max_pool2d: dtypes are f32 and f16, should be one floating");
  EXPECT_EQ(error(x.view(), windows, y.view(), wide.view()), "max_pool2d: places is i64, should be i32");
  EXPECT_EQ(error(turned.view(), windows, y.view(), places.view()), "max_pool2d: needs contiguous views");
  EXPECT_EQ(error(x.view(), windows, more.view(), more_places.view()),
            "max_pool2d: window 3 covers no pixel of 5");
  const Windows padded{.kernel = 2, .stride = 2, .padding = 2};
  EXPECT_EQ(error(x.view(), padded, y.view(), places.view()), "max_pool2d: window 0 covers no pixel of 5");
}

}  // namespace
}  // namespace reprise::kernels
