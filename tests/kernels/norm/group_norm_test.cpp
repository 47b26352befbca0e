// Group normalisation against loops in f64.
#include "reprise/kernels/norm/group_norm.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

constexpr double kEps = 1e-5;
constexpr Layout kLayouts[] = {Layout::contiguous, Layout::offset};  // `offset`: behind a 16-byte boundary

struct Sizes {
  Shape shape;
  int64_t groups;
};

/// Packs that lie in one channel and that span some, one place, one channel, one group, several tasks.
const std::vector<Sizes>& small_sizes() {
  static const std::vector<Sizes> sizes = {{{3, 6}, 2},        {{2, 6, 5}, 3},     {{1, 3, 7}, 3},
                                           {{5, 4, 8}, 1},     {{2, 32, 3, 1}, 4}, {{9, 8, 4, 6}, 8},
                                           {{3, 12, 3, 5}, 4}, {{2, 4, 129}, 2},   {{67, 10, 33}, 5},
                                           {{1, 1, 1}, 1},     {{0, 4, 5}, 2},     {{3, 4, 0}, 2}};
  return sizes;
}

/// Rows of a group, and channels, on either side of each length at which the CUDA kernels cut in another way.
std::vector<Sizes> cut_sizes() {
  std::vector<Sizes> sizes;
  for (const Shape& rows : cut_shapes()) {
    const int64_t width = rows.back();
    sizes.push_back({{2, 2, width}, 2});
    if (width % 8 == 0) sizes.push_back({{2, 16, width / 8}, 2});
  }
  return sizes;
}

struct Case {
  Shape shape;
  int64_t groups;
  Array x, dy, y, dx, gamma, beta, dgamma, dbeta, mean, rstd;

  Case(const Sizes& sizes, DType dtype, Layout layout = Layout::contiguous)
      : shape(sizes.shape),
        groups(sizes.groups),
        x(shape, dtype, layout),
        dy(shape, dtype, layout),
        y(shape, dtype, layout),
        dx(shape, dtype, layout),
        gamma({shape[1]}, dtype, Layout::offset),
        beta({shape[1]}, dtype, Layout::stepped),
        dgamma({shape[1]}, dtype),
        dbeta({shape[1]}, dtype, Layout::stepped),
        mean({shape[0], groups}, accumulator_dtype(dtype)),
        rstd({shape[0], groups}, accumulator_dtype(dtype)) {
    x.randomize(1);
    dy.randomize(2, -1, 1);
    gamma.randomize(3, 0.5, 1.5);
    beta.randomize(4);
  }
  void forward() {
    run_kernel(group_norm, {.x = x.view(),
                            .groups = groups,
                            .gamma = gamma.view(),
                            .beta = beta.view(),
                            .eps = kEps,
                            .y = y.view(),
                            .mean = mean.view(),
                            .rstd = rstd.view()});
  }
  void backward() {
    run_kernel(group_norm_backward, {.dy = dy.view(),
                                     .x = x.view(),
                                     .groups = groups,
                                     .gamma = gamma.view(),
                                     .mean = mean.view(),
                                     .rstd = rstd.view(),
                                     .dx = dx.view(),
                                     .dgamma = dgamma.view(),
                                     .dbeta = dbeta.view()});
  }
  std::vector<double> results() const {
    return joined(joined(y.values(), dx.values()), joined(dgamma.values(), dbeta.values()));
  }
  bool surroundings_untouched() const {
    return y.surroundings_untouched() && dx.surroundings_untouched() && dgamma.surroundings_untouched() &&
           dbeta.surroundings_untouched() && mean.surroundings_untouched() && rstd.surroundings_untouched();
  }
};

struct Reference {
  std::vector<double> y, mean, rstd, dx, dgamma, dbeta;

  explicit Reference(const Case& c) {
    const std::vector<double> x = c.x.values(), dy = c.dy.values(), gamma = c.gamma.values(),
                              beta = c.beta.values();
    dgamma.assign(gamma.size(), 0);
    dbeta.assign(gamma.size(), 0);
    if (x.empty()) return;
    const size_t rows = size_t(c.shape[0] * c.groups), width = x.size() / rows;
    const size_t channels = gamma.size(), places = x.size() / (size_t(c.shape[0]) * channels);
    for (size_t row = 0; row < rows; ++row) {
      auto channel = [&](size_t j) { return (row * width + j) / places % channels; };
      long double sum = 0, squares = 0, sum_g = 0, sum_gh = 0;
      for (size_t j = 0; j < width; ++j) sum += x[row * width + j];
      const double m = double(sum / width);
      for (size_t j = 0; j < width; ++j) squares += std::pow(x[row * width + j] - m, 2);
      const double r = 1 / std::sqrt(double(squares / width) + kEps);
      mean.push_back(m);
      rstd.push_back(r);
      for (size_t j = 0; j < width; ++j) {
        const size_t i = row * width + j, ch = channel(j);
        const double h = (x[i] - m) * r;
        y.push_back(h * gamma[ch] + beta[ch]);
        dgamma[ch] += dy[i] * h;
        dbeta[ch] += dy[i];
        sum_g += dy[i] * gamma[ch];
        sum_gh += dy[i] * gamma[ch] * h;
      }
      for (size_t j = 0; j < width; ++j) {
        const size_t i = row * width + j;
        dx.push_back(r * (dy[i] * gamma[channel(j)] - double(sum_g / width) -
                          (x[i] - m) * r * double(sum_gh / width)));
      }
    }
  }
};

void expect_reference(const Case& c, const std::string& what) {
  const Reference want(c);
  const DType dtype = c.y.view().dtype;
  expect_near(c.y.values(), want.y, 8 * epsilon_of(dtype), "y " + what);
  if (!want.y.empty()) {
    expect_near(c.mean.values(), want.mean, 16 * epsilon_of(c.mean.view().dtype), "mean " + what);
    expect_near(c.rstd.values(), want.rstd, 16 * epsilon_of(c.rstd.view().dtype), "rstd " + what);
  }
  // Gradients of parameters are sums, and dx is a difference of three terms.
  expect_near(c.dx.values(), want.dx, 32 * epsilon_of(dtype), "dx " + what);
  expect_near(c.dgamma.values(), want.dgamma, 256 * epsilon_of(dtype), "dgamma " + what);
  expect_near(c.dbeta.values(), want.dbeta, 256 * epsilon_of(dtype), "dbeta " + what);
  EXPECT_TRUE(c.surroundings_untouched()) << what;
}

void check_sizes(const Sizes& sizes, DType dtype, Layout layout) {
  Case c(sizes, dtype, layout);
  c.forward();
  c.backward();
  expect_reference(c, describe(sizes.shape, dtype, layout) + " in groups: " + std::to_string(sizes.groups));
}

TEST(GroupNorm, MatchesF64LoopsOnEveryDtypeAndAlignment) {
  for (const Sizes& sizes : small_sizes())
    for (DType dtype : floating_dtypes)
      for (Layout layout : kLayouts) check_sizes(sizes, dtype, layout);
}

TEST(GroupNorm, MatchesF64LoopsAtEveryCutOfTheRow) {
  for (const Sizes& sizes : cut_sizes())
    for (DType dtype : packed_dtypes) check_sizes(sizes, dtype, Layout::contiguous);
}

TEST(GroupNorm, KeepsItsDigitsWhereTheMeanIsLarge) {
  for (int64_t places : {33, 264, 1032, 16392}) {
    Case c({{2, 2, places}, 1}, DType::f32);
    c.x.randomize(1, 9999, 10001);
    c.forward();
    const Reference want(c);
    expect_near(c.mean.values(), want.mean, 2 * epsilon_of(DType::f32), "mean");
    expect_near(c.rstd.values(), want.rstd, 64 * epsilon_of(DType::f32), "rstd");
  }
}

TEST(GroupNorm, WritesOverItsInputs) {
  for (int64_t places : {5, 264, 1032, 16392}) {
    Case c({{3, 4, places}, 2}, DType::f16);
    c.forward();
    c.backward();
    const std::vector<double> y = c.y.values(), dx = c.dx.values();
    run_kernel(group_norm_backward, {.dy = c.dy.view(),
                                     .x = c.x.view(),
                                     .groups = 2,
                                     .gamma = c.gamma.view(),
                                     .mean = c.mean.view(),
                                     .rstd = c.rstd.view(),
                                     .dx = c.dy.view()});
    run_kernel(group_norm, {.x = c.x.view(),
                            .groups = 2,
                            .gamma = c.gamma.view(),
                            .beta = c.beta.view(),
                            .eps = kEps,
                            .y = c.x.view()});
    EXPECT_EQ(c.dy.values(), dx) << places;
    EXPECT_EQ(c.x.values(), y) << places;
  }
}

TEST(GroupNorm, TreatsAbsentParametersAsOneAndZero) {
  Case c({{3, 4, 9}, 2}, DType::f32);
  c.gamma.fill_with([](int64_t) { return 1.0; });
  c.beta.fill_with([](int64_t) { return 0.0; });
  c.forward();
  c.backward();
  const std::vector<double> y = c.y.values(), dx = c.dx.values();
  run_kernel(group_norm, {.x = c.x.view(), .groups = 2, .eps = kEps, .y = c.y.view()});
  run_kernel(group_norm_backward, {.dy = c.dy.view(),
                                   .x = c.x.view(),
                                   .groups = 2,
                                   .mean = c.mean.view(),
                                   .rstd = c.rstd.view(),
                                   .dx = c.dx.view()});
  EXPECT_EQ(c.y.values(), y);
  EXPECT_EQ(c.dx.values(), dx);
}

TEST(GroupNorm, GivesNanToAGroupThatHoldsOne) {
  for (int64_t places : {5, 264, 1032}) {
    Case c({{2, 4, places}, 2}, DType::f16);
    set_element(c.x.view(), 4 * places - 1, std::nan(""));
    c.forward();
    const std::vector<double> y = c.y.values();
    for (int64_t i = 0; i < 8 * places; ++i)
      ASSERT_EQ(std::isnan(y[size_t(i)]), i / (2 * places) == 1) << i << " of " << places << " places";
  }
}

TEST(GroupNorm, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Case c({{61, 12, 129}, 4}, DType::f32);
    c.forward();
    c.backward();
    return c.results();
  });
}

// x and dx in 16 bits beside y and dy in f32: the bits of a cast, the norm in f32 and another cast.
TEST(GroupNorm, OfSeveralDtypesHasTheBitsOfCastsAndTheNorm) {
  std::vector<Sizes> all = cut_sizes();
  all.insert(all.end(), small_sizes().begin(), small_sizes().end());
  for (const Sizes& sizes : all) {
    const DType half = numel_of(sizes.shape) % 3 == 0 ? DType::f16 : DType::bf16;
    Array x(sizes.shape, half), dx(sizes.shape, half), rounded(sizes.shape, half);
    x.randomize(1);
    const std::vector<double> numbers = x.values();
    Case want(sizes, DType::f32), got(sizes, DType::f32);
    want.x.fill_with([&](int64_t i) { return numbers[size_t(i)]; });
    want.forward(), want.backward();
    run_kernel(group_norm, {.x = x.view(),
                            .groups = sizes.groups,
                            .gamma = got.gamma.view(),
                            .beta = got.beta.view(),
                            .eps = kEps,
                            .y = got.y.view(),
                            .mean = got.mean.view(),
                            .rstd = got.rstd.view()});
    run_kernel(group_norm_backward, {.dy = got.dy.view(),
                                     .x = x.view(),
                                     .groups = sizes.groups,
                                     .gamma = got.gamma.view(),
                                     .mean = got.mean.view(),
                                     .rstd = got.rstd.view(),
                                     .dx = dx.view(),
                                     .dgamma = got.dgamma.view(),
                                     .dbeta = got.dbeta.view()});
    const std::vector<double> wide_dx = want.dx.values();
    rounded.fill_with([&](int64_t i) { return wide_dx[size_t(i)]; });
    EXPECT_EQ(got.y.values(), want.y.values()) << sizes.shape;
    EXPECT_EQ(dx.values(), rounded.values()) << sizes.shape;
    EXPECT_EQ(joined(got.dgamma.values(), got.dbeta.values()),
              joined(want.dgamma.values(), want.dbeta.values()))
        << sizes.shape;
    EXPECT_TRUE(dx.surroundings_untouched()) << sizes.shape;
  }
}

TEST(GroupNorm, RefusesViewsThatDoNotFit) {
  Case c({{3, 6, 4}, 2}, DType::f32);
  Array doubles({3, 6, 4}, DType::f64), two({2}, DType::f32), flat({6}, DType::f32);
  auto run = [](const GroupNormArguments& arguments) { run_kernel(group_norm, arguments); };
  expect_error([&] { run({.x = flat.view(), .groups = 2, .y = flat.view()}); },
               "group_norm: needs (N, C, ...)");
  expect_error([&] { run({.x = c.x.view(), .groups = 4, .y = c.y.view()}); },
               "group_norm: 6 channels do not divide into groups: 4");
  expect_error([&] { run({.x = c.x.view(), .groups = 2, .y = doubles.view()}); },
               "group_norm: y is f64, should be f32, bf16 or f16");
  expect_error([&] { run({.x = c.x.view(), .groups = 2, .gamma = two.view(), .y = c.y.view()}); },
               "gamma has shape (2,)");
  expect_error([&] { run({.x = c.x.view(), .groups = 2, .y = c.y.view(), .mean = two.view()}); },
               "mean has shape (2,)");
  expect_error([&] { run({.x = transpose(c.x.view(), 1, 2), .groups = 2, .y = c.y.view()}); },
               "x needs to be contiguous");
  expect_error(
      [&] {
        run_kernel(group_norm_backward, {.dy = c.dy.view(),
                                         .x = c.x.view(),
                                         .groups = 2,
                                         .mean = c.mean.view(),
                                         .rstd = {},
                                         .dx = c.dx.view()});
      },
      "group_norm_backward: needs the mean and rstd");
}

}  // namespace
}  // namespace reprise::kernels
