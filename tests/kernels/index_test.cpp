// Gather, scatter_add and arange against naive loops.
#include "reprise/kernels/index.h"

#include "reprise/core/parallel.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

const std::vector<Shape> leading_shapes = {{}, {3}, {3, 5}, {2, 1, 7}, {0}};

Shape with_last(Shape shape, int64_t size) {
  shape.push_back(size);
  return shape;
}

TEST(Gather, MatchesTheLoop) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::i64, DType::boolean})
    for (DType index_dtype : {DType::i64, DType::i32})
      for (const Shape& leading : leading_shapes)
        for (Layout layout : layouts) {
          Array x(with_last(leading, 11), dtype, layout),
              index(with_last(leading, 5), index_dtype, Layout::reversed);
          Array y(with_last(leading, 5), dtype, layout);
          x.randomize(1, 0, 100);
          index.randomize(2, 0, 11);
          run_kernel(gather, x.view(), index.view(), y.view());
          std::vector<double> xs = x.values(), at = index.values(), want(at.size());
          for (size_t i = 0; i < at.size(); ++i) want[i] = xs[i / 5 * 11 + size_t(at[i])];
          EXPECT_EQ(y.values(), want) << describe(leading, dtype, layout);
          EXPECT_TRUE(y.surroundings_untouched()) << describe(leading, dtype, layout);
        }
}

TEST(ScatterAdd, MatchesTheLoopWithRepeatedIndices) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::i64})
    for (const Shape& leading : leading_shapes)
      for (Layout layout : layouts) {
        Array x(with_last(leading, 9), dtype, layout), index(with_last(leading, 9), DType::i64);
        Array y(with_last(leading, 5), dtype, layout);
        auto whole = [](int64_t i) {
          return double(i % 13);
        };  // small whole numbers: exact sums in every dtype
        x.fill_with(whole), y.fill_with(whole);
        index.randomize(3, 0, 5);
        std::vector<double> xs = x.values(), at = index.values(), want = y.values();
        for (size_t i = 0; i < at.size(); ++i) want[i / 9 * 5 + size_t(at[i])] += xs[i];
        run_kernel(scatter_add, x.view(), index.view(), y.view());
        EXPECT_EQ(y.values(), want) << describe(leading, dtype, layout);
        EXPECT_TRUE(y.surroundings_untouched()) << describe(leading, dtype, layout);
      }
}

TEST(ScatterAdd, IsExactAcrossThreadCounts) {
  Array x({5003, 17}, DType::f32), index({5003, 17}, DType::i64);
  x.randomize(1), index.randomize(2, 0, 3);
  std::vector<double> first;
  int threads = num_threads();
  for (int count : {1, 2, 3}) {
    set_num_threads(count);
    Array y({5003, 3}, DType::f32);
    y.fill_with([](int64_t) { return 0.0; });
    run_kernel(scatter_add, x.view(), index.view(), y.view());
    if (first.empty()) first = y.values();
    EXPECT_EQ(y.values(), first) << count << " threads";
  }
  set_num_threads(threads);
}

TEST(Index, NamesTheFirstBadIndexAndWritesNothing) {
  Array x({3, 5}, DType::f32), index({3, 4}, DType::i64), y({3, 4}, DType::f32), z({3, 5}, DType::f32);
  x.randomize(1), y.fill_with([](int64_t) { return 7.0; }), z.fill_with([](int64_t) { return 7.0; });
  for (double bad : {5.0, -1.0}) {
    index.fill_with([&](int64_t i) { return i >= 6 ? bad : 4.0; });
    std::string want = detail::join("gather: index ", int(bad), " at (1, 2) is outside [0, 5)"), got;
    try {
      run_kernel(gather, x.view(), index.view(), y.view());
    } catch (const Error& error) { got = error.what(); }
    EXPECT_EQ(got, want);
    EXPECT_THROW(run_kernel(scatter_add, y.view(), index.view(), z.view()), Error);
  }
  EXPECT_EQ(y.values(), std::vector<double>(12, 7));
  EXPECT_EQ(z.values(), std::vector<double>(15, 7));
}

TEST(Index, RejectsShapesAndDtypesThatDoNotFit) {
  Array x({3, 5}, DType::f32), floats({3, 4}, DType::f32), index({3, 4}, DType::i64), y({3, 4}, DType::f32);
  Array other_rows({2, 5}, DType::f32), other_dtype({3, 4}, DType::f64), other_shape({3, 3}, DType::f32);
  EXPECT_THROW(run_kernel(gather, x.view(), floats.view(), y.view()), Error);
  EXPECT_THROW(run_kernel(gather, other_rows.view(), index.view(), y.view()), Error);
  EXPECT_THROW(run_kernel(gather, x.view(), index.view(), other_dtype.view()), Error);
  EXPECT_THROW(run_kernel(gather, x.view(), index.view(), other_shape.view()), Error);
}

TEST(Arange, CountsInRowMajorOrder) {
  for (DType dtype : {DType::i64, DType::i32, DType::f32, DType::f64})
    for (Layout layout : layouts)
      for (const Shape& shape : {Shape{}, Shape{3, 5, 7}, Shape{0}, Shape{131, 257}}) {
        Array y(shape, dtype, layout);
        run_kernel(arange, y.view());
        std::vector<double> want(size_t(numel_of(shape)));
        for (size_t i = 0; i < want.size(); ++i) want[i] = double(i);
        EXPECT_EQ(y.values(), want) << describe(shape, dtype, layout);
        EXPECT_TRUE(y.surroundings_untouched()) << describe(shape, dtype, layout);
      }
}

}  // namespace
}  // namespace reprise::kernels::testing
