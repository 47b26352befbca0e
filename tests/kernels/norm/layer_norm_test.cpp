// Layer normalisation against loops in f64.
#include "reprise/kernels/norm/layer_norm.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

constexpr double kEps = 1e-5;

struct Statistics {
  std::vector<double> mean, rstd;
};

Statistics reference_statistics(const std::vector<double>& x, size_t width) {
  Statistics result;
  for (size_t row = 0; row * width < x.size(); ++row) {
    double mean = 0, variance = 0;
    for (size_t j = 0; j < width; ++j) mean += x[row * width + j] / double(width);
    for (size_t j = 0; j < width; ++j) variance += std::pow(x[row * width + j] - mean, 2) / double(width);
    result.mean.push_back(mean);
    result.rstd.push_back(1 / std::sqrt(variance + kEps));
  }
  return result;
}

struct Gradients {
  std::vector<double> dx, dgamma, dbeta;
};

Gradients reference_gradients(const std::vector<double>& dy, const std::vector<double>& x,
                              const std::vector<double>& gamma) {
  size_t width = gamma.size();
  Statistics s = reference_statistics(x, width);
  Gradients result = {std::vector<double>(x.size()), std::vector<double>(width), std::vector<double>(width)};
  for (size_t row = 0; row < s.mean.size(); ++row) {
    double mean_g = 0, mean_gh = 0;
    auto h = [&](size_t j) { return (x[row * width + j] - s.mean[row]) * s.rstd[row]; };
    for (size_t j = 0; j < width; ++j) {
      double d = dy[row * width + j];
      mean_g += d * gamma[j] / double(width);
      mean_gh += d * gamma[j] * h(j) / double(width);
      result.dgamma[j] += d * h(j);
      result.dbeta[j] += d;
    }
    for (size_t j = 0; j < width; ++j)
      result.dx[row * width + j] = s.rstd[row] * (dy[row * width + j] * gamma[j] - mean_g - h(j) * mean_gh);
  }
  return result;
}

/// All arrays of one case; inputs hold random numbers.
struct Case {
  Shape shape;
  RowArray x, dy, y, dx;
  Array gamma, beta, dgamma, dbeta, mean, rstd;

  Case(const Shape& the_shape, DType dtype, RowLayout layout)
      : shape(the_shape),
        x(shape, dtype, layout),
        dy(shape, dtype, layout),
        y(shape, dtype, layout),
        dx(shape, dtype, layout),
        gamma({shape.back()}, dtype, Layout::offset),
        beta({shape.back()}, dtype, shape.size() == 2 ? Layout::contiguous : Layout::stepped),
        dgamma({shape.back()}, dtype),
        dbeta({shape.back()}, dtype, Layout::stepped),
        mean(leading(shape), accumulator_dtype(dtype)),
        rstd(leading(shape), accumulator_dtype(dtype)) {
    x.randomize(1);
    dy.randomize(2);
    y.fill(77);
    dx.fill(77);
    gamma.randomize(3, 0.5, 1.5);
    beta.randomize(4);
  }
  void forward() {
    run_kernel(layer_norm, {.x = x.view(),
                            .gamma = gamma.view(),
                            .beta = beta.view(),
                            .eps = kEps,
                            .y = y.view(),
                            .mean = mean.view(),
                            .rstd = rstd.view()});
  }
  void backward() {
    run_kernel(layer_norm_backward, {.dy = dy.view(),
                                     .x = x.view(),
                                     .gamma = gamma.view(),
                                     .mean = mean.view(),
                                     .rstd = rstd.view(),
                                     .dx = dx.view(),
                                     .dgamma = dgamma.view(),
                                     .dbeta = dbeta.view()});
  }
};

/// Expects y, mean and rstd to be those of the rows `x`.
void expect_normalized(const Case& c, const std::vector<double>& x, const std::string& what) {
  DType dtype = c.y.view().dtype;
  std::vector<double> gamma = c.gamma.values(), beta = c.beta.values(), want;
  Statistics s = reference_statistics(x, gamma.size());
  for (size_t i = 0; i < x.size(); ++i) {
    size_t row = i / gamma.size(), j = i % gamma.size();
    want.push_back((x[i] - s.mean[row]) * s.rstd[row] * gamma[j] + beta[j]);
  }
  // Width 1 and 3 can have rstd up to 300, which multiplies the rounding of the mean; then one rounding to
  // the dtype, of values up to 10.
  expect_near(c.y.values(), want, 8 * epsilon_of(dtype), "y " + what);
  if (x.empty()) return;
  double eps = epsilon_of(accumulator_dtype(dtype));
  // A mean of 16,000 numbers of size 4 is off by a few roundings more, most in vectors of 4 lanes.
  expect_near(c.mean.values(), s.mean, 32 * eps, "mean " + what);
  expect_near(c.rstd.values(), s.rstd, 32 * eps, "rstd " + what);
}

TEST(LayerNorm, ForwardMatchesF64LoopsOnEveryDtypeAndLayout) {
  for (const Shape& shape : row_shapes())
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : row_layouts) {
        Case c(shape, dtype, layout);
        c.forward();
        expect_normalized(c, c.x.values(), describe(shape, dtype, Layout(layout)));
        EXPECT_TRUE(layout == RowLayout::contiguous || c.y.gaps_hold(77));
      }
}

void expect_gradients(const Case& c, const std::string& what) {
  DType dtype = c.dx.view().dtype;
  Gradients want = reference_gradients(c.dy.values(), c.x.values(), c.gamma.values());
  // Sums of up to 67 terms of size 16 in f32 (f64), then one rounding to the dtype.
  expect_near(c.dx.values(), want.dx, 32 * epsilon_of(dtype), "dx " + what);
  expect_near(c.dgamma.values(), want.dgamma, 64 * epsilon_of(dtype), "dgamma " + what);
  expect_near(c.dbeta.values(), want.dbeta, 64 * epsilon_of(dtype), "dbeta " + what);
}

TEST(LayerNorm, BackwardMatchesF64LoopsOnEveryDtypeAndLayout) {
  for (const Shape& shape : row_shapes()) {
    if (shape.back() == 1) continue;  // x - mean is rounding noise there
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : row_layouts) {
        Case c(shape, dtype, layout);
        c.forward();
        c.backward();
        expect_gradients(c, describe(shape, dtype, Layout(layout)));
        EXPECT_TRUE(layout == RowLayout::contiguous || c.dx.gaps_hold(77));
      }
  }
}

TEST(LayerNorm, MatchesF64LoopsAtEveryCutOfTheRow) {
  for (const Shape& shape : cut_shapes())
    for (DType dtype : packed_dtypes) {
      Case c(shape, dtype, RowLayout::contiguous);
      std::string what = describe(shape, dtype, Layout::contiguous);
      c.forward();
      expect_normalized(c, c.x.values(), what);
      c.backward();
      expect_gradients(c, what);
    }
}

TEST(LayerNorm, SumsParametersOverMoreRowsThanOneTeamEach) {
  for (const Shape& shape : {Shape{8500, 8}, Shape{41, 1032}}) {
    Case c(shape, DType::f32, RowLayout::contiguous);
    c.x.randomize(1, -1, 1);
    c.dy.randomize(2, -1, 1);
    c.forward();
    c.backward();
    Gradients want = reference_gradients(c.dy.values(), c.x.values(), c.gamma.values());
    // Thousands of terms of size 1, whose partial sums reach 100.
    expect_near(c.dgamma.values(), want.dgamma, 512 * epsilon_of(DType::f32), "dgamma");
    expect_near(c.dbeta.values(), want.dbeta, 512 * epsilon_of(DType::f32), "dbeta");
    std::vector<double> first = joined(c.dgamma.values(), c.dbeta.values());
    c.backward();
    EXPECT_EQ(joined(c.dgamma.values(), c.dbeta.values()), first);
  }
}

TEST(LayerNorm, KeepsItsDigitsWhereTheMeanIsLarge) {
  for (int64_t width : {129, 768, 1032, 16392}) {
    Array x({3, width}, DType::f32), y({3, width}, DType::f32);
    x.randomize(5, 9999, 10001);
    run_kernel(layer_norm, {.x = x.view(), .eps = kEps, .y = y.view()});
    std::vector<double> values = x.values(), want;
    Statistics s = reference_statistics(values, size_t(width));
    for (size_t i = 0; i < values.size(); ++i)
      want.push_back((values[i] - s.mean[i / size_t(width)]) * s.rstd[i / size_t(width)]);
    // As with a mean of 0. E[x^2] - mean^2 in f32 would be off by 100%, an uncorrected mean by 1e-3.
    expect_near(y.values(), want, 16 * epsilon_of(DType::f32), "y");
  }
}

TEST(LayerNorm, AddsAResidualAndNormalizesTheSumAsItIsStored) {
  auto expect_sums = [](const Case& c, const RowArray& sum, const std::string& what) {
    std::vector<double> x = c.x.values(), residual = c.dy.values(), want = sum.values();
    for (size_t i = 0; i < want.size(); ++i) want[i] = x[i] + residual[i];
    expect_near(sum.values(), want, epsilon_of(sum.view().dtype), "sum " + what);
    expect_normalized(c, sum.values(), what);
  };
  auto run = [&](const Shape& shape, DType dtype, RowLayout layout) {
    Case c(shape, dtype, layout);
    RowArray sum(shape, dtype, layout);
    sum.fill(77);
    run_kernel(layer_norm, {.x = c.x.view(),
                            .residual = c.dy.view(),
                            .gamma = c.gamma.view(),
                            .beta = c.beta.view(),
                            .eps = kEps,
                            .sum = sum.view(),
                            .y = c.y.view(),
                            .mean = c.mean.view(),
                            .rstd = c.rstd.view()});
    expect_sums(c, sum, describe(shape, dtype, Layout(layout)));
    EXPECT_TRUE(layout == RowLayout::contiguous || (sum.gaps_hold(77) && c.y.gaps_hold(77)));
  };
  for (const Shape& shape : row_shapes())
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : row_layouts) run(shape, dtype, layout);
  for (const Shape& shape : cut_shapes())
    for (DType dtype : packed_dtypes) run(shape, dtype, RowLayout::contiguous);
}

TEST(LayerNorm, WritesTheSumOverEitherOfItsTerms) {
  for (int64_t width : {65, 264, 1032, 16392})
    for (bool over_x : {true, false}) {
      Case c({7, width}, DType::bf16, RowLayout::contiguous);
      RowArray sum({7, width}, DType::bf16);
      auto add = [&](const TensorView& into) {
        run_kernel(layer_norm, {.x = c.x.view(),
                                .residual = c.dy.view(),
                                .gamma = c.gamma.view(),
                                .beta = c.beta.view(),
                                .eps = kEps,
                                .sum = into,
                                .y = c.y.view()});
      };
      add(sum.view());
      std::vector<double> y = c.y.values();
      const RowArray& term = over_x ? c.x : c.dy;
      add(term.view());
      EXPECT_EQ(term.values(), sum.values()) << width;
      EXPECT_EQ(c.y.values(), y) << width;
    }
}

TEST(LayerNorm, TreatsAbsentArgumentsAsNeutralAndTakesF32ParametersWithHalfInputs) {
  Case c({7, 65}, DType::f32, RowLayout::padded);
  Array one({65}, DType::f32), zero({65}, DType::f32), plain({7, 65}, DType::f32);
  one.fill_with([](int64_t) { return 1.0; });
  zero.fill_with([](int64_t) { return 0.0; });
  run_kernel(layer_norm, {.x = c.x.view(), .eps = kEps, .y = c.y.view()});
  run_kernel(layer_norm,
             {.x = c.x.view(), .gamma = one.view(), .beta = zero.view(), .eps = kEps, .y = plain.view()});
  EXPECT_EQ(c.y.values(), plain.values());

  Case half({7, 65}, DType::bf16, RowLayout::contiguous);
  Array gamma({65}, DType::f32);
  half.forward();
  std::vector<double> want = half.y.values(), stored = half.gamma.values();
  gamma.fill_with([&](int64_t j) { return stored[size_t(j)]; });
  run_kernel(
      layer_norm,
      {.x = half.x.view(), .gamma = gamma.view(), .beta = half.beta.view(), .eps = kEps, .y = half.y.view()});
  EXPECT_EQ(half.y.values(), want);
}

TEST(LayerNorm, BackwardWritesOverItsGradientAndSkipsAbsentOutputs) {
  for (auto [width, layout] : {std::pair{65, RowLayout::padded},
                               {264, RowLayout::contiguous},
                               {1032, RowLayout::contiguous},
                               {8200, RowLayout::contiguous}}) {
    Case c({7, width}, DType::f32, layout);
    c.forward();
    c.backward();
    std::vector<double> dx = c.dx.values(), dgamma = c.dgamma.values(), dbeta = c.dbeta.values();
    c.dbeta.randomize(9);
    auto backward = [&](const TensorView& into, const TensorView& gamma_into, const TensorView& beta_into) {
      run_kernel(layer_norm_backward, {.dy = c.dy.view(),
                                       .x = c.x.view(),
                                       .gamma = c.gamma.view(),
                                       .mean = c.mean.view(),
                                       .rstd = c.rstd.view(),
                                       .dx = into,
                                       .dgamma = gamma_into,
                                       .dbeta = beta_into});
    };
    backward({}, {}, c.dbeta.view());
    EXPECT_EQ(c.dbeta.values(), dbeta) << width;
    backward(c.dy.view(), {}, {});
    EXPECT_EQ(c.dy.values(), dx) << width;
    c.dy.randomize(2);
    c.dgamma.randomize(9);
    backward(c.dy.view(), c.dgamma.view(), {});
    EXPECT_EQ(c.dy.values(), dx) << width;
    EXPECT_EQ(c.dgamma.values(), dgamma) << width;
  }
}

TEST(LayerNorm, EmptyInputsGiveZeroParameterGradients) {
  Case c({0, 5}, DType::f32, RowLayout::contiguous);
  c.backward();
  EXPECT_EQ(c.dgamma.values(), std::vector<double>(5, 0.0));
  EXPECT_EQ(c.dbeta.values(), std::vector<double>(5, 0.0));
}

TEST(LayerNorm, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Case c({531, 129}, DType::f32, RowLayout::contiguous);
    c.forward();
    c.backward();
    return joined(joined(c.y.values(), c.dx.values()), joined(c.dgamma.values(), c.dbeta.values()));
  });
}

TEST(LayerNorm, RefusesViewsThatDoNotFit) {
  Case c({3, 5}, DType::f32, RowLayout::contiguous);
  Array other({3, 7}, DType::f32), wide({3, 5}, DType::f64), turned({3, 5}, DType::f32, Layout::reversed);
  auto forward = [&](const TensorView& x, const TensorView& gamma, const TensorView& y,
                     const TensorView& mean) {
    run_kernel(layer_norm, {.x = x, .gamma = gamma, .eps = kEps, .y = y, .mean = mean});
  };
  expect_error([&] { forward(c.x.view(), {}, other.view(), {}); }, "layer_norm: y has shape (3, 7)");
  expect_error([&] { forward(c.x.view(), {}, wide.view(), {}); }, "layer_norm: y is f64");
  expect_error([&] { forward(turned.view(), {}, c.y.view(), {}); }, "stride 1");
  expect_error([&] { forward(c.x.view(), other.view(), c.y.view(), {}); },
               "layer_norm: gamma has shape (3, 7)");
  expect_error([&] { forward(c.x.view(), {}, c.y.view(), c.gamma.view()); },
               "layer_norm: mean has shape (5,)");
  expect_error(
      [&] {
        run_kernel(
            layer_norm,
            {.x = c.x.view(), .residual = other.view(), .eps = kEps, .sum = c.dx.view(), .y = c.y.view()});
      },
      "layer_norm: residual has shape (3, 7)");
  expect_error(
      [&] {
        run_kernel(layer_norm, {.x = c.x.view(), .residual = c.dy.view(), .eps = kEps, .y = c.y.view()});
      },
      "layer_norm: residual and sum go together");
}

}  // namespace
}  // namespace reprise::kernels
