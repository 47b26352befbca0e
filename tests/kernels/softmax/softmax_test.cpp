// Softmax and log-softmax against the definition in f64, odd row lengths, strided rows, infinities and NaN.
// not in tsan: Softmax.MixesDtypesAsCastsWould
#include "reprise/kernels/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "reprise/core/parallel.h"
#include "reprise/tests/kernels/row_views.h"
#include "reprise/tests/kernels/run.h"

namespace reprise::kernels {
namespace {

using testing::run_kernel;

/// Rows of `cols` values, each `gap` values longer in memory.
template <class T>
struct Matrix {
  int64_t rows, cols, gap;
  std::vector<T> data;

  Matrix(int64_t the_rows, int64_t the_cols, int64_t the_gap = 0)
      : rows(the_rows), cols(the_cols), gap(the_gap), data(size_t(rows * (cols + gap)), T(77.0f)) {}
  Matrix& fill(uint32_t seed, float size = 1) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0, size);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) (*this)(i, j) = T(normal(engine));
    return *this;
  }
  T& operator()(int64_t i, int64_t j) { return data[size_t(i * (cols + gap) + j)]; }
  TensorView view() { return {data.data(), {rows, cols}, {cols + gap, 1}, dtype_of<T>, Device::cpu()}; }
};

template <class T>
std::vector<double> log_softmax_of(Matrix<T>& x, int64_t i) {
  double max = -INFINITY, sum = 0;
  for (int64_t j = 0; j < x.cols; ++j) max = std::max(max, double(x(i, j)));
  for (int64_t j = 0; j < x.cols; ++j) sum += std::exp(double(x(i, j)) - max);
  std::vector<double> y;
  for (int64_t j = 0; j < x.cols; ++j) y.push_back(double(x(i, j)) - max - std::log(sum));
  return y;
}

/// Forward and backward of both functions; backward from the y that forward gave. Rows have `gap`, or a few
/// times as many, values between them.
template <class T>
void expect_matches_definition(int64_t cols, double tolerance, int64_t gap = 1) {
  SCOPED_TRACE(detail::join(name_of(dtype_of<T>), ", ", cols, " columns"));
  Matrix<T> x(3, cols, 2 * gap), y(3, cols, gap), log_y(3, cols), dy(3, cols, 3 * gap), dx(3, cols, 5 * gap),
      log_dx(3, cols);
  x.fill(1, 3);
  dy.fill(2);
  run_kernel(softmax, x.view(), y.view());
  run_kernel(log_softmax, x.view(), log_y.view());
  run_kernel(softmax_backward, dy.view(), y.view(), dx.view());
  run_kernel(log_softmax_backward, dy.view(), log_y.view(), log_dx.view());
  for (int64_t i = 0; i < 3; ++i) {
    std::vector<double> want = log_softmax_of(x, i);
    double dot = 0, total = 0, size = 1;
    for (int64_t j = 0; j < cols; ++j) {
      dot += double(dy(i, j)) * std::exp(want[size_t(j)]);
      total += double(dy(i, j));
      size = std::max({size, std::fabs(want[size_t(j)]), std::fabs(double(dy(i, j)))});
    }
    size += std::fabs(total);
    for (int64_t j = 0; j < cols; ++j) {
      double p = std::exp(want[size_t(j)]);
      ASSERT_NEAR(double(y(i, j)), p, tolerance) << i << ", " << j;
      ASSERT_NEAR(double(log_y(i, j)), want[size_t(j)], tolerance * size) << i << ", " << j;
      ASSERT_NEAR(double(dx(i, j)), p * (double(dy(i, j)) - dot), tolerance * size) << i << ", " << j;
      ASSERT_NEAR(double(log_dx(i, j)), double(dy(i, j)) - p * total, tolerance * size) << i << ", " << j;
    }
  }
  EXPECT_EQ(float(y.data[size_t(cols)]), 77.0f) << "written behind the end of a row";
  EXPECT_EQ(float(dx.data[size_t(cols)]), 77.0f) << "written behind the end of a row";
}

TEST(Softmax, MatchesTheDefinitionOnOddRows) {
  for (int64_t cols : {1, 3, 5, 7, 16, 17, 33, 64, 1000}) {
    expect_matches_definition<double>(cols, 1e-13);
    expect_matches_definition<float>(cols, 2e-6);  // exp to a few ulp, sums of up to 1000 terms
    expect_matches_definition<BFloat16>(cols,
                                        2e-2);  // y and dx are rounded to 8 bits, backward reads a rounded y
    expect_matches_definition<Float16>(cols, 3e-3);  // the same with 11 bits
  }
}

TEST(Softmax, MatchesTheDefinitionAtEveryCutOfTheRow) {
  for (const Shape& shape : testing::cut_shapes()) {
    const int64_t cols = shape.back();
    expect_matches_definition<float>(cols, 4e-6, 8);  // sums of up to 16392 terms
    expect_matches_definition<BFloat16>(cols, 2e-2, 8);
    expect_matches_definition<Float16>(cols, 4e-3, 8);
  }
  expect_matches_definition<double>(kWidestWarpRow + 7, 1e-13);
}

TEST(Softmax, TakesMoreRowsThanOneLaunchHasTeams) {
  constexpr int64_t rows = kRowTeams + 5;
  Matrix<float> dy(rows, 2), y(rows, 2), dx(rows, 2);
  dy.fill(1);
  y.fill(2);
  run_kernel(softmax_backward, dy.view(), y.view(), dx.view());
  for (int64_t i = 0; i < dy.rows; ++i) {
    double dot = double(dy(i, 0)) * double(y(i, 0)) + double(dy(i, 1)) * double(y(i, 1));
    for (int64_t j : {0, 1}) {
      double want = double(y(i, j)) * (double(dy(i, j)) - dot);
      ASSERT_NEAR(double(dx(i, j)), want, 1e-5) << i << ", " << j;  // roundings of products up to 30
    }
  }
}

TEST(Softmax, WorksInPlace) {
  for (int64_t cols : {37, 264, 1032, 16392}) {
    Matrix<float> x(5, cols), y(5, cols), log_y(5, cols);
    x.fill(1);
    run_kernel(softmax, x.view(), y.view());
    run_kernel(log_softmax, x.view(), log_y.view());
    Matrix<float> in_place = x;
    run_kernel(softmax, in_place.view(), in_place.view());
    EXPECT_EQ(in_place.data, y.data);
    run_kernel(log_softmax, x.view(), x.view());
    EXPECT_EQ(x.data, log_y.data);
  }
}

TEST(Softmax, GivesMinusInfinityNoWeight) {
  for (int64_t cols : {5, 40, 1032, 16392}) {
    Matrix<float> x(1, cols), y(1, cols), log_y(1, cols);
    x.fill(1);
    x(0, 1) = x(0, 4) = -INFINITY;
    run_kernel(softmax, x.view(), y.view());
    run_kernel(log_softmax, x.view(), log_y.view());
    EXPECT_EQ(y(0, 1), 0);
    EXPECT_EQ(log_y(0, 4), -INFINITY);
    EXPECT_TRUE(y(0, 0) > 0 && std::isfinite(log_y(0, 0)));
  }
}

TEST(Softmax, GivesNanToRowsOfMinusInfinityInfinityOrNan) {
  for (int64_t cols : {5, 16, 40, 1032, 16392}) {
    Matrix<float> x(4, cols), y(4, cols), log_y(4, cols);
    x.fill(1);
    for (int64_t j = 0; j < cols; ++j) x(0, j) = -INFINITY;
    x(1, 2) = INFINITY;
    x(2, 3) = NAN;
    run_kernel(softmax, x.view(), y.view());
    run_kernel(log_softmax, x.view(), log_y.view());
    for (int64_t j = 0; j < cols; ++j) {
      EXPECT_TRUE(std::isnan(y(0, j)) && std::isnan(log_y(0, j))) << j;
      // As in PyTorch, the sum of a row with +inf or NaN is NaN.
      EXPECT_TRUE(std::isnan(y(1, j)) && std::isnan(log_y(1, j))) << j;
      EXPECT_TRUE(std::isnan(y(2, j)) && std::isnan(log_y(2, j))) << j;
      EXPECT_TRUE(std::isfinite(y(3, j)) && std::isfinite(log_y(3, j))) << j;
    }
  }
}

TEST(Softmax, ReachesRowsOfTransposedViews) {
  Matrix<float> x(3 * 49, 5), y(3 * 49, 5), want(3 * 49, 5);
  x.fill(1);
  run_kernel(softmax, x.view(), want.view());
  TensorView from = x.view(), to = y.view();
  from.shape = to.shape = {3, 49, 5};
  from.strides = to.strides = {5, 15, 1};
  run_kernel(softmax, from, to);
  EXPECT_EQ(y.data, want.data);
}

TEST(Softmax, IsExactAcrossThreadCounts) {
  int before = num_threads();
  Matrix<float> x(1000, 65), one(1000, 65), many(1000, 65);
  x.fill(1);
  set_num_threads(1);
  run_kernel(softmax, x.view(), one.view());
  for (int threads : {2, 4}) {
    set_num_threads(threads);
    run_kernel(softmax, x.view(), many.view());
    EXPECT_EQ(one.data, many.data) << threads;
  }
  set_num_threads(before);
}

// Rows of several dtypes: the bits of rows in f32, widened before and rounded after.
TEST(Softmax, MixesDtypesAsCastsWould) {
  using testing::RowArray;
  auto as = [](const RowArray& x, DType dtype) {
    RowArray other(x.view().shape, dtype);
    const std::vector<double> values = x.values();
    for (size_t i = 0; i < values.size(); ++i) testing::set_element(other.view(), int64_t(i), values[i]);
    return other;
  };
  for (const Shape& shape : {Shape{5, 37}, {7, 264}, {3, 1032}, {2, 16392}})
    for (DType half : {DType::bf16, DType::f16})
      for (int wide = 1; wide < 7; ++wide) {
        auto of = [&](int bit) { return wide >> bit & 1 ? DType::f32 : half; };
        RowArray x(shape, of(0)), y(shape, of(1)), wide_y(shape, DType::f32);
        RowArray dy(shape, of(0)), dx(shape, of(2)), wide_dx(shape, DType::f32);
        x.randomize(1), dy.randomize(2);
        const std::string what = detail::join(shape, " ", half, " mix ", wide);
        for (auto* kernels : {&softmax, &log_softmax}) {
          const auto& gradient = kernels == &softmax ? softmax_backward : log_softmax_backward;
          run_kernel(*kernels, x.view(), y.view());
          run_kernel(*kernels, as(x, DType::f32).view(), wide_y.view());
          EXPECT_EQ(y.values(), as(wide_y, of(1)).values()) << what;
          run_kernel(gradient, dy.view(), y.view(), dx.view());
          run_kernel(gradient, as(dy, DType::f32).view(), as(y, DType::f32).view(), wide_dx.view());
          EXPECT_EQ(dx.values(), as(wide_dx, of(2)).values()) << what;
        }
      }
}

TEST(Softmax, TakesEmptyInputs) {
  for (auto [rows, cols] : {std::pair{0, 5}, {5, 0}}) {
    Matrix<float> x(rows, cols);
    EXPECT_NO_THROW(run_kernel(softmax, x.view(), x.view()));
    EXPECT_NO_THROW(run_kernel(log_softmax_backward, x.view(), x.view(), x.view()));
  }
}

TEST(Softmax, NamesWhatDoesNotFit) {
  Matrix<float> x(2, 3), y(2, 4);
  auto error_of = [](const TensorView& from, const TensorView& to) -> std::string {
    try {
      run_kernel(softmax, from, to);
    } catch (const Error& error) { return error.what(); }
    return "no error";
  };
  EXPECT_EQ(error_of(x.view(), y.view()), "softmax: shapes differ: (2, 3) and (2, 4)");
  TensorView integers = x.view();
  integers.dtype = DType::i32;
  EXPECT_EQ(error_of(x.view(), integers), "softmax: one of the rows is i32, should be f32, bf16 or f16");
  EXPECT_EQ(error_of(integers, integers), "softmax: needs a floating dtype, got i32");
  TensorView columns = transpose(x.view(), 0, 1);
  EXPECT_EQ(error_of(columns, columns), "softmax: needs stride 1 in the last dimension, got strides (1, 3)");
}

}  // namespace
}  // namespace reprise::kernels
