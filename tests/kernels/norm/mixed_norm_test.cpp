// Layer norm and RMS norm of rows in 16 bits beside rows in f32: the bits of a cast, the norm in f32 and another cast.
// not in tsan: MixedNorm.AddsItsGradientToAnother:MixedNorm.GoesBackInEveryMixOfDtypes:MixedNorm.AddsAndNormalizesInEveryMixOfDtypes
#include <array>

#include "reprise/kernels/norm/layer_norm.h"
#include "reprise/kernels/norm/rms_norm.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

constexpr double kEps = 1e-5;
constexpr DType halves[] = {DType::bf16, DType::f16};

/// One of the two norms.
struct Norm {
  const Kernel<void(const NormArguments&)>& forward;
  const Kernel<void(const NormBackwardArguments&)>& backward;
  bool centred;
};
const Norm norms[] = {{layer_norm, layer_norm_backward, true}, {rms_norm, rms_norm_backward, false}};

/// Contiguous rows of every cut but the last ones, and rows at odd addresses.
struct Place {
  Shape shape;
  RowLayout layout;
};
const Place places[] = {{{7, 65}, RowLayout::contiguous},     {{7, 66}, RowLayout::contiguous},
                        {{7, 12}, RowLayout::contiguous},     {{5, 24}, RowLayout::contiguous},
                        {{3, 5, 264}, RowLayout::transposed}, {{3, 520}, RowLayout::contiguous},
                        {{3, 768}, RowLayout::contiguous},    {{2, 1024}, RowLayout::contiguous},
                        {{21, 1036}, RowLayout::padded},      {{3, 1032}, RowLayout::contiguous},
                        {{1, 8200}, RowLayout::contiguous},   {{1, 16392}, RowLayout::contiguous}};

/// Rows of x's numbers in f32.
RowArray widened(const RowArray& x, RowLayout layout) {
  RowArray wide(x.view().shape, DType::f32, layout);
  const std::vector<double> values = x.values();
  for (size_t i = 0; i < values.size(); ++i)
    set_element(wide.view(), offset_of(wide.view(), int64_t(i)), values[i]);
  return wide;
}

std::vector<double> rounded(const std::vector<double>& values, DType dtype) {
  Array array({int64_t(values.size())}, dtype);
  array.fill_with([&](int64_t i) { return values[size_t(i)]; });
  return array.values();
}

struct Parameters {
  Array gamma, beta, mean, rstd;

  explicit Parameters(const Shape& shape)
      : gamma({shape.back()}, DType::f32),
        beta({shape.back()}, DType::f32),
        mean(leading(shape), DType::f32),
        rstd(leading(shape), DType::f32) {
    gamma.randomize(3, 0.5, 1.5);
    beta.randomize(4);
  }
  NormArguments arguments(bool centred, const TensorView& x, const TensorView& y) const {
    return {.x = x,
            .gamma = gamma.view(),
            .beta = centred ? beta.view() : TensorView(),
            .eps = kEps,
            .y = y,
            .mean = centred ? mean.view() : TensorView(),
            .rstd = rstd.view()};
  }
  std::vector<double> statistics(bool centred) const {
    return centred ? joined(mean.values(), rstd.values()) : rstd.values();
  }
};

std::string described(const Place& place, const Norm& norm, std::initializer_list<DType> dtypes) {
  std::string text = reprise::detail::join(norm.centred ? "layer norm " : "rms norm ", place.shape,
                                           " layout ", int(place.layout), ":");
  for (DType dtype : dtypes) text += reprise::detail::join(" ", dtype);
  return text;
}

void expect_forward(const Norm& norm, const Place& place, DType of_x, DType of_y) {
  const auto& [shape, layout] = place;
  RowArray x(shape, of_x, layout), y(shape, of_y, layout);
  x.randomize(1), y.fill(77);
  const Parameters got(shape), want(shape);
  run_kernel(norm.forward, got.arguments(norm.centred, x.view(), y.view()));
  const RowArray wide_x = widened(x, layout), wide_y = widened(y, layout);
  run_kernel(norm.forward, want.arguments(norm.centred, wide_x.view(), wide_y.view()));
  const std::string what = described(place, norm, {of_x, of_y});
  EXPECT_EQ(y.values(), rounded(wide_y.values(), of_y)) << what;
  EXPECT_EQ(got.statistics(norm.centred), want.statistics(norm.centred)) << what;
  EXPECT_TRUE(layout == RowLayout::contiguous || y.gaps_hold(77)) << what;
}

TEST(MixedNorm, HasTheBitsOfCastsAndTheNorm) {
  for (const Norm& norm : norms)
    for (const Place& place : places)
      for (DType half : halves) {
        expect_forward(norm, place, half, DType::f32);
        expect_forward(norm, place, DType::f32, half);
        expect_forward(norm, place, half, half == DType::bf16 ? DType::f16 : DType::bf16);
      }
}

void expect_sum(const Norm& norm, const Place& place, const std::array<DType, 4>& dtypes) {
  const auto& [shape, layout] = place;
  const auto [of_x, of_residual, of_sum, of_y] = dtypes;
  RowArray x(shape, of_x, layout), residual(shape, of_residual, layout), sum(shape, of_sum, layout),
      y(shape, of_y, layout);
  x.randomize(1), residual.randomize(2), sum.fill(77), y.fill(77);
  const Parameters got(shape), want(shape);
  NormArguments arguments = got.arguments(norm.centred, x.view(), y.view());
  arguments.residual = residual.view(), arguments.sum = sum.view();
  run_kernel(norm.forward, arguments);
  const std::string what = described(place, norm, {of_x, of_residual, of_sum, of_y});
  std::vector<double> sums = x.values(), terms = residual.values();
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = double(float(sums[i]) + float(terms[i]));
  ASSERT_EQ(sum.values(), rounded(sums, of_sum)) << what;
  const RowArray wide_sum = widened(sum, layout), wide_y = widened(y, layout);
  run_kernel(norm.forward, want.arguments(norm.centred, wide_sum.view(), wide_y.view()));
  EXPECT_EQ(y.values(), rounded(wide_y.values(), of_y)) << what;
  EXPECT_EQ(got.statistics(norm.centred), want.statistics(norm.centred)) << what;
  EXPECT_TRUE(layout == RowLayout::contiguous || (y.gaps_hold(77) && sum.gaps_hold(77))) << what;
}

TEST(MixedNorm, AddsAndNormalizesInEveryMixOfDtypes) {
  for (const Norm& norm : norms)
    for (const Place& place : places)
      for (int wide = 1; wide < 15; ++wide) {
        const DType half = halves[wide % 2];
        auto of = [&](int bit) { return wide >> bit & 1 ? DType::f32 : half; };
        expect_sum(norm, place, {of(0), of(1), of(2), of(3)});
      }
}

void expect_gradients(const Norm& norm, const Place& place, DType of_dy, DType of_x, DType of_dx) {
  const auto& [shape, layout] = place;
  RowArray x(shape, of_x, layout), dy(shape, of_dy, layout), dx(shape, of_dx, layout);
  x.randomize(1), dy.randomize(2), dx.fill(77);
  const Parameters parameters(shape);
  const RowArray wide_x = widened(x, layout), wide_dy = widened(dy, layout), wide_dx = widened(dx, layout);
  run_kernel(norm.forward, parameters.arguments(norm.centred, wide_x.view(), wide_dx.view()));
  auto gradients = [&](const RowArray& gradient, const RowArray& rows, const RowArray& into) {
    Array dgamma({shape.back()}, DType::f32), dbeta({shape.back()}, DType::f32);
    run_kernel(norm.backward, {.dy = gradient.view(),
                               .x = rows.view(),
                               .gamma = parameters.gamma.view(),
                               .mean = norm.centred ? parameters.mean.view() : TensorView(),
                               .rstd = parameters.rstd.view(),
                               .dx = into.view(),
                               .dgamma = dgamma.view(),
                               .dbeta = norm.centred ? dbeta.view() : TensorView()});
    return norm.centred ? joined(dgamma.values(), dbeta.values()) : dgamma.values();
  };
  const std::string what = described(place, norm, {of_dy, of_x, of_dx});
  EXPECT_EQ(gradients(dy, x, dx), gradients(wide_dy, wide_x, wide_dx)) << what;
  EXPECT_EQ(dx.values(), rounded(wide_dx.values(), of_dx)) << what;
  EXPECT_TRUE(layout == RowLayout::contiguous || dx.gaps_hold(77)) << what;
}

TEST(MixedNorm, GoesBackInEveryMixOfDtypes) {
  for (const Norm& norm : norms)
    for (const Place& place : places)
      for (int wide = 1; wide < 7; ++wide) {
        const DType half = halves[wide % 2];
        auto of = [&](int bit) { return wide >> bit & 1 ? DType::f32 : half; };
        expect_gradients(norm, place, of(0), of(1), of(2));
      }
}

void expect_sum(const Norm& norm, const Place& place, DType of_dy, DType of_x, DType of_dx) {
  const auto& [shape, layout] = place;
  const std::string what = reprise::detail::join(norm.centred ? "layer_norm " : "rms_norm ", shape, ", dy ",
                                                 of_dy, ", x ", of_x, ", dx ", of_dx);
  const DType statistic = of_x == DType::f64 ? DType::f64 : DType::f32;
  RowArray dy(shape, of_dy, layout), x(shape, of_x, layout), dx(shape, of_dx, layout),
      addend(shape, of_dx, layout), sum(shape, of_dx, layout);
  Array mean(leading(shape), statistic), rstd(leading(shape), statistic);
  dy.randomize(1), x.randomize(2), addend.randomize(3), mean.randomize(4), rstd.randomize(5, 0.5, 2);
  NormBackwardArguments arguments{.dy = dy.view(),
                                  .x = x.view(),
                                  .mean = norm.centred ? mean.view() : TensorView(),
                                  .rstd = rstd.view(),
                                  .dx = dx.view()};
  run_kernel(norm.backward, arguments);
  std::vector<double> want = addend.values(), gradient = dx.values();
  for (size_t i = 0; i < want.size(); ++i)
    want[i] = of_dx == DType::f64 ? want[i] + gradient[i] : double(float(want[i]) + float(gradient[i]));
  want = rounded(want, of_dx);
  arguments.addend = addend.view(), arguments.dx = sum.view();
  run_kernel(norm.backward, arguments);
  EXPECT_EQ(sum.values(), want) << what;
  arguments.dx = addend.view();
  run_kernel(norm.backward, arguments);
  EXPECT_EQ(addend.values(), want) << what << ", in place";
}

// The bits of the gradient, rounded, and of an addition after it.
TEST(MixedNorm, AddsItsGradientToAnother) {
  for (const Norm& norm : norms)
    for (const Place& place : places) {
      for (DType dtype : floating_dtypes) expect_sum(norm, place, dtype, dtype, dtype);
      expect_sum(norm, place, DType::bf16, DType::f32, DType::f32);
      expect_sum(norm, place, DType::f32, DType::f16, DType::f16);
    }
  RowArray f32({3, 5}, DType::f32), bf16({3, 5}, DType::bf16);
  Array rstd({3}, DType::f32);
  auto refuses = [](const NormBackwardArguments& arguments, const char* message) {
    expect_error([&] { run_kernel(rms_norm_backward, arguments); }, message);
  };
  refuses({.dy = f32.view(), .x = f32.view(), .rstd = rstd.view(), .dx = f32.view(), .addend = bf16.view()},
          "rms_norm_backward: addend is bf16, dx is f32");
  refuses({.dy = f32.view(), .x = f32.view(), .rstd = rstd.view(), .addend = bf16.view()},
          "rms_norm_backward: addend is bf16, dx is absent");
}

TEST(MixedNorm, RefusesOtherMixes) {
  RowArray f32({3, 5}, DType::f32), f64({3, 5}, DType::f64), bf16({3, 5}, DType::bf16);
  Array rstd({3}, DType::f32);
  auto refuses = [](const NormArguments& arguments, const char* message) {
    expect_error([&] { run_kernel(layer_norm, arguments); }, message);
  };
  refuses({.x = f32.view(), .eps = kEps, .y = f64.view()},
          "layer_norm: y is f64, should be f32, bf16 or f16");
  refuses({.x = f64.view(), .eps = kEps, .y = bf16.view()}, "layer_norm: y is bf16, should be f64");
  refuses({.x = f64.view(), .residual = f32.view(), .eps = kEps, .sum = f64.view(), .y = f64.view()},
          "add_layer_norm: residual is f32, should be f64");
  expect_error(
      [&] {
        run_kernel(rms_norm_backward,
                   {.dy = bf16.view(), .x = f32.view(), .rstd = rstd.view(), .dx = f64.view()});
      },
      "rms_norm_backward: dx is f64, should be f32, bf16 or f16");
}

}  // namespace
}  // namespace reprise::kernels
