// Root-mean-square normalisation against loops in f64.
#include "reprise/kernels/norm/rms_norm.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

constexpr double kEps = 1e-5;

struct Case {
  RowArray x, dy, y, dx;
  Array gamma, dgamma, rstd;

  Case(const Shape& shape, DType dtype, RowLayout layout)
      : x(shape, dtype, layout),
        dy(shape, dtype, layout),
        y(shape, dtype, layout),
        dx(shape, dtype, layout),
        gamma({shape.back()}, dtype, Layout::offset),
        dgamma({shape.back()}, dtype, Layout::stepped),
        rstd(leading(shape), accumulator_dtype(dtype)) {
    x.randomize(1);
    dy.randomize(2);
    y.fill(77);
    dx.fill(77);
    gamma.randomize(3, 0.5, 1.5);
  }
  void run() {
    run_kernel(rms_norm,
               {.x = x.view(), .gamma = gamma.view(), .eps = kEps, .y = y.view(), .rstd = rstd.view()});
    run_kernel(rms_norm_backward, {.dy = dy.view(),
                                   .x = x.view(),
                                   .gamma = gamma.view(),
                                   .rstd = rstd.view(),
                                   .dx = dx.view(),
                                   .dgamma = dgamma.view()});
  }
};

struct Reference {
  std::vector<double> y, rstd, dx, dgamma;

  explicit Reference(const Case& c) {
    std::vector<double> x = c.x.values(), dy = c.dy.values(), gamma = c.gamma.values();
    size_t width = gamma.size();
    dgamma.assign(width, 0);
    for (size_t begin = 0; begin < x.size(); begin += width) {
      double squares = 0, mean_gh = 0;
      for (size_t j = 0; j < width; ++j) squares += x[begin + j] * x[begin + j];
      double r = 1 / std::sqrt(squares / double(width) + kEps);
      rstd.push_back(r);
      for (size_t j = 0; j < width; ++j) {
        y.push_back(x[begin + j] * r * gamma[j]);
        mean_gh += dy[begin + j] * gamma[j] * x[begin + j] * r / double(width);
        dgamma[j] += dy[begin + j] * x[begin + j] * r;
      }
      for (size_t j = 0; j < width; ++j)
        dx.push_back(r * (dy[begin + j] * gamma[j] - x[begin + j] * r * mean_gh));
    }
  }
};

void expect_reference(const Case& c, const std::string& what) {
  Reference want(c);
  DType dtype = c.y.view().dtype;
  // y and rstd are a handful of roundings; gradients are sums of up to 129 terms of size 16.
  expect_near(c.y.values(), want.y, 4 * epsilon_of(dtype), "y " + what);
  expect_near(c.dx.values(), want.dx, 32 * epsilon_of(dtype), "dx " + what);
  expect_near(c.dgamma.values(), want.dgamma, 64 * epsilon_of(dtype), "dgamma " + what);
  if (!want.y.empty())
    expect_near(c.rstd.values(), want.rstd, 8 * epsilon_of(accumulator_dtype(dtype)), "rstd " + what);
}

TEST(RmsNorm, MatchesF64LoopsOnEveryDtypeAndLayout) {
  for (const Shape& shape : row_shapes())
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : row_layouts) {
        Case c(shape, dtype, layout);
        c.run();
        expect_reference(c, describe(shape, dtype, Layout(layout)));
        EXPECT_TRUE(layout == RowLayout::contiguous || (c.y.gaps_hold(77) && c.dx.gaps_hold(77)));
      }
}

TEST(RmsNorm, MatchesF64LoopsAtEveryCutOfTheRow) {
  for (const Shape& shape : cut_shapes())
    for (DType dtype : packed_dtypes) {
      Case c(shape, dtype, RowLayout::contiguous);
      c.run();
      expect_reference(c, describe(shape, dtype, Layout::contiguous));
    }
}

TEST(RmsNorm, AddsAResidualAndNormalizesTheSumAsItIsStored) {
  auto run = [&](const Shape& shape, DType dtype, RowLayout layout) {
    Case c(shape, dtype, layout);
    RowArray sum(shape, dtype, layout);
    sum.fill(77);
    run_kernel(rms_norm, {.x = c.x.view(),
                          .residual = c.dy.view(),
                          .gamma = c.gamma.view(),
                          .eps = kEps,
                          .sum = sum.view(),
                          .y = c.y.view(),
                          .rstd = c.rstd.view()});
    std::string what = describe(shape, dtype, Layout(layout));
    std::vector<double> x = c.x.values(), residual = c.dy.values(), want = x;
    for (size_t i = 0; i < want.size(); ++i) want[i] = x[i] + residual[i];
    expect_near(sum.values(), want, epsilon_of(dtype), "sum " + what);
    // What is left is rms_norm of the stored sum.
    RowArray y(shape, dtype, layout);
    Array rstd(leading(shape), accumulator_dtype(dtype));
    run_kernel(rms_norm,
               {.x = sum.view(), .gamma = c.gamma.view(), .eps = kEps, .y = y.view(), .rstd = rstd.view()});
    expect_near(c.y.values(), y.values(), epsilon_of(dtype), "y " + what);
    if (!x.empty()) expect_near(c.rstd.values(), rstd.values(), 2 * epsilon_of(DType::f32), "rstd " + what);
    EXPECT_TRUE(layout == RowLayout::contiguous || (sum.gaps_hold(77) && c.y.gaps_hold(77)));
  };
  for (const Shape& shape : row_shapes())
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : row_layouts) run(shape, dtype, layout);
  for (const Shape& shape : cut_shapes())
    for (DType dtype : packed_dtypes) run(shape, dtype, RowLayout::contiguous);
}

TEST(RmsNorm, WritesTheSumOverEitherOfItsTerms) {
  for (int64_t width : {65, 264, 1032, 16392})
    for (bool over_x : {true, false}) {
      Case c({7, width}, DType::f16, RowLayout::contiguous);
      RowArray sum({7, width}, DType::f16);
      run_kernel(rms_norm, {.x = c.x.view(),
                            .residual = c.dy.view(),
                            .gamma = c.gamma.view(),
                            .eps = kEps,
                            .sum = sum.view(),
                            .y = c.y.view()});
      std::vector<double> y = c.y.values();
      const RowArray& term = over_x ? c.x : c.dy;
      run_kernel(rms_norm, {.x = c.x.view(),
                            .residual = c.dy.view(),
                            .gamma = c.gamma.view(),
                            .eps = kEps,
                            .sum = term.view(),
                            .y = c.y.view()});
      EXPECT_EQ(term.values(), sum.values()) << width;
      EXPECT_EQ(c.y.values(), y) << width;
    }
}

TEST(RmsNorm, TreatsAbsentGammaAsOneAndWritesOverItsGradient) {
  Case c({7, 65}, DType::f32, RowLayout::padded);
  c.gamma.fill_with([](int64_t) { return 1.0; });
  c.run();
  std::vector<double> y = c.y.values(), dx = c.dx.values();
  run_kernel(rms_norm, {.x = c.x.view(), .eps = kEps, .y = c.y.view()});
  expect_near(c.y.values(), y, 4 * epsilon_of(DType::f32), "y without gamma");
  run_kernel(rms_norm_backward,
             {.dy = c.dy.view(), .x = c.x.view(), .rstd = c.rstd.view(), .dx = c.dy.view()});
  // Another instantiation of a CUDA kernel: its compiler may fuse other products with other sums.
  expect_near(c.dy.values(), dx, 4 * epsilon_of(DType::f32), "dx without gamma");
}

TEST(RmsNorm, GivesNanToARowThatHoldsOne) {
  for (int64_t width : {65, 264, 1032, 16392}) {
    Case c({3, width}, DType::f16, RowLayout::contiguous);
    set_element(c.x.view(), 2 * width - 1, std::nan(""));
    run_kernel(
        rms_norm,
        {.x = c.x.view(), .gamma = c.gamma.view(), .eps = kEps, .y = c.y.view(), .rstd = c.rstd.view()});
    const std::vector<double> y = c.y.values();
    for (int64_t i = 0; i < 3 * width; ++i)
      ASSERT_EQ(std::isnan(y[size_t(i)]), i / width == 1) << i << " of rows of " << width;
  }
}

TEST(RmsNorm, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Case c({531, 129}, DType::f32, RowLayout::contiguous);
    c.run();
    return joined(c.y.values(), joined(c.dx.values(), c.dgamma.values()));
  });
}

TEST(RmsNorm, RefusesViewsThatDoNotFit) {
  Case c({3, 5}, DType::f32, RowLayout::contiguous);
  Array wide({3, 5}, DType::f64), short_row({4}, DType::f32);
  expect_error([&] { run_kernel(rms_norm, {.x = c.x.view(), .eps = kEps, .y = wide.view()}); },
               "rms_norm: y is f64");
  expect_error(
      [&] {
        run_kernel(rms_norm, {.x = c.x.view(), .gamma = short_row.view(), .eps = kEps, .y = c.y.view()});
      },
      "gamma has shape (4,)");
  expect_error(
      [&] {
        run_kernel(rms_norm_backward, {.dy = c.dy.view(), .x = c.x.view(), .rstd = {}, .dx = c.dx.view()});
      },
      "rms_norm_backward: needs the rstd");
}

}  // namespace
}  // namespace reprise::kernels
