// Convolution and its gradients against loops in f64 over strides, paddings, dilations, groups and dtypes.
// also by cuDNN
// also by cuBLASLt
#include "reprise/kernels/conv/conv2d.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <vector>

#include "reprise/kernels/conv/conv2d_add_dweight.h"
#include "reprise/kernels/conv/conv2d_by_gemm.h"
#include "reprise/kernels/conv/unfold.h"
#include "reprise/tests/kernels/run.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

struct Case {
  Shape x, weight;
  Conv2dOptions options;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {{2, 3, 8, 12}, {5, 3, 4, 4}, {.stride = 4}},  // patches
      {{2, 3, 7, 9}, {4, 3, 3, 3}, {.padding = 1}},  // the common one
      {{1, 2, 9, 7}, {3, 2, 3, 2}, {.stride = {2, 3}, .padding = {2, 1}}},
      {{2, 2, 11, 10}, {2, 2, 3, 3}, {.padding = 2, .dilation = {2, 3}}},
      {{2, 6, 5, 6}, {4, 3, 3, 3}, {.padding = 1, .groups = 2}},
      {{1, 5, 6, 5}, {5, 1, 3, 3}, {.stride = 2, .padding = 1, .groups = 5}},  // depthwise
      {{3, 7, 4, 5}, {2, 7, 1, 1}, {}},
      {{1, 1, 10, 10}, {1, 1, 2, 2}, {.stride = 5}},                      // pixels that no window covers
      {{3, 31, 7, 6}, {17, 31, 3, 3}, {.stride = {1, 2}, .padding = 1}},  // sums longer than a panel
      {{5, 8, 4, 4}, {34, 4, 3, 2}, {.stride = 2, .padding = {1, 0}, .groups = 2}},
      {{1, 1, 2, 2}, {2, 1, 5, 5}, {.padding = 4}},  // windows larger than the image
  };
  return all;
}

/// Calls body(n, o, i, j, c, p, q, row, column) for each product of the convolution, c within its group.
template <class Body>
void each_product(const Case& k, Body&& body) {
  const Shape y = conv2d_shape(k.x, k.weight, k.options);
  for (int64_t n = 0; n < y[0]; ++n)
    for (int64_t o = 0; o < y[1]; ++o)
      for (int64_t i = 0; i < y[2]; ++i)
        for (int64_t j = 0; j < y[3]; ++j)
          for (int64_t c = 0; c < k.weight[1]; ++c)
            for (int64_t p = 0; p < k.weight[2]; ++p)
              for (int64_t q = 0; q < k.weight[3]; ++q) {
                const auto& [stride, padding, dilation, groups] = k.options;
                const int64_t row = i * stride.height - padding.height + p * dilation.height;
                const int64_t column = j * stride.width - padding.width + q * dilation.width;
                if (row < 0 || row >= k.x[2] || column < 0 || column >= k.x[3]) continue;
                const int64_t channel = o / (k.weight[0] / groups) * k.weight[1] + c;
                const int64_t at_x = ((n * k.x[1] + channel) * k.x[2] + row) * k.x[3] + column;
                const int64_t at_w = ((o * k.weight[1] + c) * k.weight[2] + p) * k.weight[3] + q;
                const int64_t at_y = ((n * y[1] + o) * y[2] + i) * y[3] + j;
                body(size_t(at_x), size_t(at_w), size_t(at_y));
              }
}

/// For sums of a few hundred products up to 1; half types round the unfolded gradient before it is summed
/// too.
double tolerance_of(DType dtype) {
  return (dtype == DType::f64 || dtype == DType::f32 ? 50 : 4) * epsilon_of(dtype);
}

/// What computes: the kernels, or the way by unfolded windows, which a BLAS needs.
struct Ways {
  std::function<void(const Conv2dArguments&)> forward;
  std::function<void(const Conv2dDxArguments&)> dx;
  std::function<void(const Conv2dDweightArguments&)> dweight;
};

const Ways kernels_of_device{[](const auto& x) { run_kernel(conv2d, x); },
                             [](const auto& x) { run_kernel(conv2d_dx, x); },
                             [](const auto& x) { run_kernel(conv2d_dweight, x); }};
const Ways by_unfolded_windows{
    [](const auto& x) { conv2d_detail::conv2d_by_gemm(Stream(Device::cpu()), x); },
    [](const auto& x) { conv2d_detail::conv2d_dx_by_gemm(Stream(Device::cpu()), x); },
    [](const auto& x) { conv2d_detail::conv2d_dweight_by_gemm(Stream(Device::cpu()), x); }};

void expect_forward(const Case& k, DType dtype, bool with_bias, double tolerance,
                    const Ways& ways = kernels_of_device, std::optional<DType> bias_dtype = {}) {
  Array x(k.x, dtype), w(k.weight, dtype), bias({k.weight[0]}, bias_dtype.value_or(dtype));
  Array y(conv2d_shape(k.x, k.weight, k.options), dtype);
  x.randomize(1, -1, 1), w.randomize(2, -1, 1), bias.randomize(3, -1, 1);
  const auto xs = x.values(), ws = w.values(), biases = bias.values();
  std::vector<double> want(size_t(y.view().numel()));
  const size_t plane = size_t(y.view().size(2) * y.view().size(3)), out = size_t(k.weight[0]);
  for (size_t i = 0; i < want.size(); ++i) want[i] = with_bias ? biases[i / plane % out] : 0;
  each_product(k, [&](size_t at_x, size_t at_w, size_t at_y) { want[at_y] += xs[at_x] * ws[at_w]; });
  ways.forward({.x = x.view(),
                .weight = w.view(),
                .bias = with_bias ? bias.view() : TensorView(),
                .options = k.options,
                .y = y.view()});
  expect_near(y.values(), want, tolerance, "y");
  EXPECT_TRUE(y.surroundings_untouched());
}

void expect_gradients(const Case& k, DType dtype, double tolerance, const Ways& ways = kernels_of_device,
                      std::optional<DType> dweight_dtype = {}) {
  Array x(k.x, dtype), w(k.weight, dtype), dy(conv2d_shape(k.x, k.weight, k.options), dtype);
  Array dx(k.x, dtype), dw(k.weight, dweight_dtype.value_or(dtype));
  x.randomize(1, -1, 1), w.randomize(2, -1, 1), dy.randomize(3, -1, 1);
  const auto xs = x.values(), ws = w.values(), dys = dy.values();
  std::vector<double> want_dx(xs.size()), want_dw(ws.size());
  each_product(k, [&](size_t at_x, size_t at_w, size_t at_y) {
    want_dx[at_x] += dys[at_y] * ws[at_w];
    want_dw[at_w] += dys[at_y] * xs[at_x];
  });
  ways.dx({.dy = dy.view(), .weight = w.view(), .options = k.options, .dx = dx.view()});
  expect_near(dx.values(), want_dx, tolerance, "dx");
  EXPECT_TRUE(dx.surroundings_untouched());
  // The same as a transposed convolution, which has a bias.
  Array bias({k.x[1]}, dweight_dtype.value_or(dtype));
  bias.randomize(4, -1, 1);
  const auto biases = bias.values();
  const size_t plane = size_t(k.x[2] * k.x[3]), channels = size_t(k.x[1]);
  for (size_t i = 0; i < want_dx.size(); ++i) want_dx[i] += biases[i / plane % channels];
  ways.dx({.dy = dy.view(), .weight = w.view(), .bias = bias.view(), .options = k.options, .dx = dx.view()});
  expect_near(dx.values(), want_dx, tolerance, "dx and bias");
  ways.dweight({.dy = dy.view(), .x = x.view(), .options = k.options, .dweight = dw.view()});
  expect_near(dw.values(), want_dw, dweight_dtype ? tolerance_of(*dweight_dtype) : tolerance, "dweight");
  EXPECT_TRUE(dw.surroundings_untouched());
}

TEST(Conv2d, MatchesLoops) {
  for (const Case& k : cases())
    for (DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      SCOPED_TRACE(::testing::Message() << k.x << " by " << k.weight << " " << dtype);
      expect_forward(k, dtype, true, tolerance_of(dtype));
      expect_gradients(k, dtype, tolerance_of(dtype));
    }
  expect_forward(cases()[1], DType::f32, false, tolerance_of(DType::f32));
}

std::vector<Ways> ways_of_device() {
  std::vector<Ways> all = {kernels_of_device};
  if (reprise::testing::test_device().type == DeviceType::cpu) all.push_back(by_unfolded_windows);
  return all;
}

TEST(Conv2d, TakesF32ParametersBeside16BitImages) {
  for (const Ways& ways : ways_of_device())
    for (DType dtype : {DType::bf16, DType::f16})
      for (const Case& k : cases()) {
        SCOPED_TRACE(::testing::Message() << k.x << " by " << k.weight << " " << dtype);
        expect_forward(k, dtype, true, tolerance_of(dtype), ways, DType::f32);
        expect_gradients(k, dtype, tolerance_of(dtype), ways, DType::f32);
      }
  if (reprise::testing::test_device().type == DeviceType::cuda) return;  // slow in the emulator
  const Case slabs{{3, 16, 200, 200}, {1, 16, 3, 3}, {.stride = 3, .padding = 1}};
  expect_gradients(slabs, DType::bf16, tolerance_of(DType::bf16), kernels_of_device, DType::f32);
}

// Images of f32 beside 16 bits: rounded as they are copied, the bits of images that were rounded before.
TEST(Conv2d, RoundsImagesOfF32AsItCopiesThem) {
  for (const Ways& ways : ways_of_device())
    for (DType dtype : {DType::bf16, DType::f16})
      for (const Case& k : cases()) {
        SCOPED_TRACE(::testing::Message() << k.x << " by " << k.weight << " " << dtype);
        const Shape shape = conv2d_shape(k.x, k.weight, k.options);
        Array wide(k.x, DType::f32), x(k.x, dtype), w(k.weight, dtype), dy(shape, dtype);
        wide.randomize(1, -1, 1), w.randomize(2, -1, 1), dy.randomize(3, -1, 1);
        const auto xs = wide.values();
        x.fill_with([&](int64_t i) { return xs[size_t(i)]; });
        Array y(shape, dtype), of_wide(shape, dtype), dw(k.weight, DType::f32),
            dw_of_wide(k.weight, DType::f32);
        auto run = [&](const TensorView& images, const Array& result, const Array& gradient) {
          ways.forward({.x = images, .weight = w.view(), .options = k.options, .y = result.view()});
          ways.dweight({.dy = dy.view(), .x = images, .options = k.options, .dweight = gradient.view()});
        };
        run(x.view(), y, dw), run(wide.view(), of_wide, dw_of_wide);
        EXPECT_EQ(of_wide.values(), y.values());
        EXPECT_EQ(dw_of_wide.values(), dw.values());
      }
}

TEST(Conv2d, TakesManyImagesInSlabs) {
  // An image is more than a slab of the CPU's products holds, and has more windows than a slab needs.
  const Case k{{3, 16, 200, 200}, {1, 16, 3, 3}, {.stride = 3, .padding = 1}};
  if (reprise::testing::test_device().type == DeviceType::cuda) GTEST_SKIP() << "slow in the emulator";
  const double of_13k_products = 1e-4;
  expect_forward(k, DType::f32, true, of_13k_products);
  expect_gradients(k, DType::f32, of_13k_products);
}

TEST(Conv2d, MatchesLoopsByUnfoldedWindows) {
  if (reprise::testing::test_device().type == DeviceType::cuda) GTEST_SKIP() << "the CPU's";
  // 9 MB of unfolded windows an image: three images in a slab, and a slab of one is left over.
  const Case slabs{{4, 64, 64, 64}, {1, 64, 3, 3}, {.padding = 1}};
  expect_forward(slabs, DType::f32, true, 1e-4, by_unfolded_windows);
  expect_gradients(slabs, DType::f32, 1e-4, by_unfolded_windows);
  for (const Case& k : cases()) {
    SCOPED_TRACE(::testing::Message() << k.x << " by " << k.weight);
    expect_forward(k, DType::f32, true, tolerance_of(DType::f32), by_unfolded_windows);
    expect_gradients(k, DType::f32, tolerance_of(DType::f32), by_unfolded_windows);
  }
}

TEST(Conv2d, TakesSumsOfSeveralRoundsAndSlabs) {
  if (reprise::testing::test_device().type == DeviceType::cuda) GTEST_SKIP() << "slow in the emulator";
  const Case rounds{{9, 128, 7, 7}, {20, 128, 3, 3}, {.padding = 1}},
      slabs{{70, 3, 7, 9}, {5, 3, 3, 3}, {.padding = 1}};
  for (const Case& k : {rounds, slabs}) {
    expect_forward(k, DType::f32, true, 1e-4);
    expect_gradients(k, DType::f32, 1e-4);
  }
}

// A gradient that is added to one: the bits of one made alone and an addition.
void expect_sum(const Case& k, DType dtype, DType of_sum, bool unfolded) {
  SCOPED_TRACE(::testing::Message() << k.x << " by " << k.weight << " " << dtype << " to " << of_sum);
  Array x(k.x, dtype), dy(conv2d_shape(k.x, k.weight, k.options), dtype);
  Array alone(k.weight, of_sum), sum(k.weight, of_sum);
  x.randomize(1, -1, 1), dy.randomize(2, -1, 1), sum.randomize(3, -1, 1);
  std::vector<double> want = sum.values();
  auto of = [&](const Array& dweight) {
    return Conv2dDweightArguments{
        .dy = dy.view(), .x = x.view(), .options = k.options, .dweight = dweight.view()};
  };
  if (unfolded) {
    by_unfolded_windows.dweight(of(alone));
    conv2d_detail::conv2d_dweight_by_gemm(Stream(Device::cpu()), of(sum), conv2d_detail::Before::added_to);
  } else {
    run_kernel(conv2d_dweight, of(alone));
    run_kernel(conv2d_add_dweight, of(sum));
  }
  const std::vector<double> gradient = alone.values();
  for (size_t i = 0; i < want.size(); ++i)
    want[i] = of_sum == DType::f64 ? want[i] + gradient[i] : double(float(want[i]) + float(gradient[i]));
  EXPECT_EQ(sum.values(), want);
  EXPECT_TRUE(sum.surroundings_untouched());
}

TEST(Conv2d, AddsToAGradientWithTheBitsOfAnAddition) {
  const bool is_cpu = reprise::testing::test_device().type == DeviceType::cpu;
  std::vector<Case> all = cases();
  // Several rounds of a product's sum, and below several slabs: too slow for the emulator.
  if (is_cpu) all.push_back({{9, 128, 7, 7}, {20, 128, 3, 3}, {.padding = 1}});
  all.push_back({{0, 3, 5, 5}, {4, 3, 3, 3}, {.padding = 1}});
  for (const Case& k : all)
    for (bool unfolded : {false, true}) {
      if (unfolded && !is_cpu) continue;
      expect_sum(k, DType::f32, DType::f32, unfolded);
      expect_sum(k, DType::f64, DType::f64, unfolded);
      expect_sum(k, DType::bf16, DType::f32, unfolded);
      expect_sum(k, DType::f16, DType::f32, unfolded);
    }
  if (is_cpu) expect_sum({{2, 64, 46, 46}, {1, 64, 3, 3}, {.padding = 1}}, DType::f32, DType::f32, false);
  if (is_cpu) expect_sum({{4, 64, 46, 46}, {1, 64, 3, 3}, {.padding = 1}}, DType::bf16, DType::f32, false);
  const Array x({1, 1, 3, 3}, DType::bf16), dy({1, 1, 2, 2}, DType::bf16), dweight({1, 1, 2, 2}, DType::bf16);
  expect_error(
      [&] { run_kernel(conv2d_add_dweight, {.dy = dy.view(), .x = x.view(), .dweight = dweight.view()}); },
      "conv2d: sums of gradients need f32 or f64, got bf16");
}

TEST(Conv2d, TakesNoImages) {
  const Conv2dOptions options{.padding = 1};
  Array x({0, 3, 5, 5}, DType::f32), w({4, 3, 3, 3}, DType::f32), y({0, 4, 5, 5}, DType::f32);
  Array dw({4, 3, 3, 3}, DType::f32);
  w.randomize(1);
  run_kernel(conv2d, {.x = x.view(), .weight = w.view(), .options = options, .y = y.view()});
  run_kernel(conv2d_dx, {.dy = y.view(), .weight = w.view(), .options = options, .dx = x.view()});
  run_kernel(conv2d_dweight, {.dy = y.view(), .x = x.view(), .options = options, .dweight = dw.view()});
  expect_near(dw.values(), std::vector<double>(108), 0, "dweight");
}

TEST(Conv2d, TakesImagesWithoutChannels) {
  const Conv2dOptions options{};
  Array x({2, 0, 5, 5}, DType::f32), w({1, 0, 3, 3}, DType::f32), y({2, 1, 3, 3}, DType::f32);
  Array bias({1}, DType::f32);
  bias.randomize(1);
  run_kernel(conv2d,
             {.x = x.view(), .weight = w.view(), .bias = bias.view(), .options = options, .y = y.view()});
  expect_near(y.values(), std::vector<double>(18, bias.values()[0]), 0, "y");
}

// Four channels of two groups take single elements, sixteen of two packs.
TEST(Unfold, KeepsBitsAndFoldSumsInOrder) {
  const Windows windows{.kernel = {2, 3}, .stride = {1, 2}, .padding = {1, 0}, .dilation = {2, 1}};
  const Size2 count = windows.count(6, 9);
  for (const int64_t channels : {4, 16})
    for (const int64_t groups : {1, 2}) {
      SCOPED_TRACE(reprise::detail::join(channels, " channels, ", groups, " groups"));
      Array x({2, 6, 9, channels}, DType::f32), back({2, 6, 9, channels}, DType::f32);
      const int64_t run = channels / groups, size = channels * 6;
      Array columns({2 * count.height * count.width, size}, DType::f32);
      x.fill_with([](int64_t i) { return double(i + 1); });
      run_kernel(unfold, x.view(), windows, groups, columns.view());
      const auto values = columns.values();
      // Window (i, j) = (1, 2) of image 1: its first row of pixels is row 0, its first column is 4.
      const int64_t window = (count.height + 1) * count.width + 2;
      for (int64_t c = 0; c < channels; ++c)
        for (int64_t p = 0; p < 2; ++p)
          for (int64_t q = 0; q < 3; ++q)
            EXPECT_EQ(values[size_t(window * size + ((c / run * 2 + p) * 3 + q) * run + c % run)],
                      double(((6 + 2 * p) * 9 + 4 + q) * channels + c + 1));
      run_kernel(fold, columns.view(), windows, groups, back.view(), TensorView());
      std::vector<double> want = x.values();
      for (size_t i = 0; i < want.size(); ++i) {
        const size_t pixel = i / size_t(channels), column = pixel % 9, row = pixel / 9 % 6;
        const int across = column % 2 == 0 && column > 0 && column < 8 ? 2 : 1;
        const int down =
            (row + 1 < size_t(count.height) ? 1 : 0) + (row >= 1 && row - 1 < size_t(count.height) ? 1 : 0);
        want[i] *= across * down;
      }
      expect_near(back.values(), want, 0, "fold");
    }
}

TEST(Conv2d, RefusesWhatDoesNotFit) {
  const Shape x{1, 4, 5, 5}, weight{6, 2, 3, 3};
  expect_error([&] { conv2d_shape(x, weight, {}); }, "(6, 2, 3, 3) do not fit 1 groups");
  expect_error([&] { conv2d_shape({4, 5, 5}, weight, {}); }, "conv2d: needs images (N, C, H, W)");
  expect_error([&] { conv2d_shape(x, weight, {.stride = 0, .groups = 2}); },
               "conv2d: stride must be in [1, 2147483647], got (0, 0)");
  expect_error([&] { conv2d_shape(x, weight, {.padding = -1, .groups = 2}); },
               "conv2d: padding must be in [0, 2147483647], got (-1, -1)");
  expect_error([&] { conv2d_shape(x, weight, {.dilation = 3, .groups = 2}); },
               "conv2d: images (1, 4, 5, 5) are smaller");
  expect_error([&] { conv2d_shape(x, {5, 2, 3, 3}, {.groups = 2}); }, "(5, 2, 3, 3) do not fit 2 groups");
  EXPECT_EQ(conv2d_shape(x, weight, {.groups = 2}), (Shape{1, 6, 3, 3}));
  Array a(x, DType::f32), w(weight, DType::f32), y({1, 6, 3, 3}, DType::f32), wrong({1, 6, 3, 4}, DType::f32);
  Array bias({4}, DType::f32), wide({6}, DType::f64);
  const Conv2dOptions options{.groups = 2};
  auto refuses = [](const Conv2dArguments& arguments, const char* message) {
    expect_error([&] { run_kernel(conv2d, arguments); }, message);
  };
  refuses({.x = a.view(), .weight = w.view(), .options = options, .y = wrong.view()},
          "conv2d: the result is (1, 6, 3, 4), should be (1, 6, 3, 3)");
  refuses({.x = a.view(), .weight = w.view(), .bias = bias.view(), .options = options, .y = y.view()},
          "conv2d: bias is f32 (4,), needs f32 (6,)");
  refuses({.x = a.view(), .weight = w.view(), .bias = wide.view(), .options = options, .y = y.view()},
          "conv2d: bias is f64 (6,), needs f32 (6,)");
  Array half(weight, DType::f16), wide_y({1, 6, 3, 3}, DType::f64);
  refuses({.x = a.view(), .weight = half.view(), .options = options, .y = y.view()},
          "conv2d: dtypes differ: x f32, weight f16, y f32");
  refuses({.x = a.view(), .weight = w.view(), .options = options, .y = wide_y.view()},
          "conv2d: dtypes differ: x f32, weight f32, y f64");
  Array turned(x, DType::f32, Layout::reversed);
  refuses({.x = turned.view(), .weight = w.view(), .options = options, .y = y.view()},
          "conv2d: x, weight and y must be contiguous");
}

}  // namespace
}  // namespace reprise::kernels::testing
