// Separable maps against dense matrices, and axis maps against their definitions; tests/ops/golden_test.cpp compares
// interpolation with PyTorch's.
#include "reprise/kernels/image/separable2d.h"

#include "reprise/kernels/image/axis_map.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

using Dense = std::vector<std::vector<double>>;  // output by input

Dense dense(const AxisMap& map) {
  Dense matrix;
  for (size_t i = 0; i < size_t(map.outputs()); ++i) {
    matrix.emplace_back(size_t(map.inputs));
    for (size_t k = size_t(map.starts[i]); k < size_t(map.starts[i + 1]); ++k)
      matrix.back()[size_t(map.sources[k])] += map.weights[k];
  }
  return matrix;
}

/// The arrays of a map for the kernel.
struct Matrix {
  Array starts, sources, weights;
  Matrix(const AxisMap& map, DType dtype)
      : starts({int64_t(map.starts.size())}, DType::i32),
        sources({int64_t(map.sources.size())}, DType::i32),
        weights({int64_t(map.weights.size())}, dtype) {
    starts.fill_with([&](int64_t i) { return double(map.starts[size_t(i)]); });
    sources.fill_with([&](int64_t i) { return double(map.sources[size_t(i)]); });
    weights.fill_with([&](int64_t i) { return map.weights[size_t(i)]; });
  }
  SparseRows view() const { return {starts.view(), sources.view(), weights.view()}; }
};

std::vector<double> run(const Shape& x_shape, const AxisMap& rows, const AxisMap& columns, DType dtype) {
  const Shape y_shape{x_shape[0], x_shape[1], rows.outputs(), columns.outputs()};
  Array x(x_shape, dtype), y(y_shape, dtype);
  x.randomize(1);
  const Matrix r(rows, accumulator_dtype(dtype)), c(columns, accumulator_dtype(dtype));
  run_kernel(separable2d, x.view(), r.view(), c.view(), y.view());

  const std::vector<double> pixels = x.values();
  const Dense down = dense(rows), along = dense(columns);
  const size_t height = size_t(x_shape[2]), width = size_t(x_shape[3]);
  std::vector<double> want;
  for (size_t plane = 0; plane < size_t(x_shape[0] * x_shape[1]); ++plane)
    for (const auto& row : down)
      for (const auto& column : along) {
        double sum = 0;
        for (size_t p = 0; p < height; ++p)
          for (size_t q = 0; q < width; ++q)
            sum += row[p] * column[q] * pixels[(plane * height + p) * width + q];
        want.push_back(sum);
      }
  // Sums of up to some 50 numbers of at most 4, with weights beyond 1 where cubic; half types round once.
  expect_near(y.values(), want, (dtype == DType::f32 || dtype == DType::f64 ? 64 : 1) * epsilon_of(dtype),
              "y");
  EXPECT_TRUE(y.surroundings_untouched());
  return y.values();
}

TEST(Separable2d, IsTheProductWithDenseMatrices) {
  for (DType dtype : floating_dtypes) {
    run({2, 3, 5, 7}, interpolation_map(5, 9, Kernel1d::linear, Align::edges), nearest_map(7, 3), dtype);
    run({1, 2, 9, 33}, antialias_map(9, 4, Kernel1d::cubic, Align::edges),
        interpolation_map(33, 65, Kernel1d::cubic, Align::corners), dtype);
    run({1, 1, 7, 5}, reflection_map(7, 6, 2).transposed().transposed(), reflection_map(5, 0, 4), dtype);
    run({2, 1, 16, 6}, interpolation_map(5, 16, Kernel1d::cubic, Align::edges).transposed(),
        nearest_map(6, 6), dtype);
    run({0, 3, 5, 7}, nearest_map(5, 2), nearest_map(7, 2), dtype);
  }
}

TEST(Separable2d, IsTheSameAtAnyThreadCount) {
  expect_same_at_any_thread_count([] {
    return run({2, 2, 40, 70}, interpolation_map(40, 90, Kernel1d::linear, Align::corners),
               antialias_map(70, 33, Kernel1d::linear, Align::edges), DType::f32);
  });
}

TEST(AxisMap, TransposedHasRowsAsColumns) {
  const AxisMap map = antialias_map(9, 4, Kernel1d::cubic, Align::edges);
  const Dense given = dense(map), turned = dense(map.transposed());
  ASSERT_EQ(turned.size(), 9u);
  for (size_t i = 0; i < given.size(); ++i)
    for (size_t j = 0; j < turned.size(); ++j) EXPECT_EQ(turned[j][i], given[i][j]) << i << " " << j;
}

TEST(AxisMap, NearestTakesThePixelBelow) {
  EXPECT_EQ(nearest_map(3, 7).sources, (std::vector<int32_t>{0, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(nearest_map(7, 3).sources, (std::vector<int32_t>{0, 2, 4}));
}

TEST(AxisMap, ReflectionLeavesTheBorderOut) {
  EXPECT_EQ(reflection_map(4, 3, 2).sources, (std::vector<int32_t>{3, 2, 1, 0, 1, 2, 3, 2, 1}));
}

TEST(AxisMap, MeansCountPaddingButNothingBeyondIt) {
  // Three windows of 3 by steps of 2 over one zero, four pixels, one zero: the last has two places inside the padding.
  EXPECT_EQ(dense(mean_map(4, 3, 3, 2, 1, CountPadding::yes)),
            (Dense{{1.0 / 3, 1.0 / 3, 0, 0}, {0, 1.0 / 3, 1.0 / 3, 1.0 / 3}, {0, 0, 0, 1.0 / 2}}));
  EXPECT_EQ(dense(mean_map(4, 3, 3, 2, 1, CountPadding::no)),
            (Dense{{1.0 / 2, 1.0 / 2, 0, 0}, {0, 1.0 / 3, 1.0 / 3, 1.0 / 3}, {0, 0, 0, 1}}));
}

TEST(Separable2d, RefusesWhatDoesNotFit) {
  const Matrix rows(nearest_map(5, 2), DType::f32), columns(nearest_map(7, 3), DType::f32);
  const Matrix wide(nearest_map(5, 2), DType::f64);
  Array x({1, 2, 5, 7}, DType::f32), y({1, 2, 2, 3}, DType::f32), other({1, 2, 3, 3}, DType::f32);
  Array doubles({1, 2, 2, 3}, DType::f64), channel({1, 1, 2, 3}, DType::f32);
  Array turned({1, 2, 5, 7}, DType::f32, Layout::reversed);
  auto error = [&](const TensorView& from, const Matrix& r, const TensorView& to) {
    return error_of(separable2d, from, r.view(), columns.view(), to);
  };
  EXPECT_EQ(error(x.view(), rows, y.view()), "");
  EXPECT_EQ(error(x.view(), rows, other.view()), "separable2d: rows has shape (3,), should have (4,)");
  EXPECT_EQ(error(x.view(), rows, channel.view()),
            "separable2d: images (1, 2, 5, 7) and (1, 1, 2, 3) do not fit");
  EXPECT_EQ(error(x.view(), rows, doubles.view()), "separable2d: y is f64, should be f32, bf16 or f16");
  EXPECT_EQ(error(x.view(), wide, y.view()),
            "separable2d: weights of rows are f64 (2,), should be a list of f32");
  EXPECT_NE(error(turned.view(), rows, y.view()).find("images must be contiguous"), std::string::npos);
}

}  // namespace
}  // namespace reprise::kernels
