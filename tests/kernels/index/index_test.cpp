// Gather, the scatters and arange against naive loops.
#include "reprise/kernels/index/index.h"

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

TEST(OneHot, MatchesTheLoopForManyClassesToo) {
  for (DType dtype : {DType::f32, DType::f16, DType::i64, DType::boolean})
    for (DType index_dtype : {DType::i64, DType::i32})
      for (const Shape& leading : leading_shapes)
        for (int64_t classes : {1, 5, 2500})
          for (Layout layout : layouts) {
            Array index(leading, index_dtype, Layout::reversed),
                y(with_last(leading, classes), dtype, layout);
            index.randomize(2, 0, double(classes));
            run_kernel(one_hot, index.view(), y.view());
            std::vector<double> at = index.values(), want(at.size() * size_t(classes));
            for (size_t i = 0; i < at.size(); ++i) want[i * size_t(classes) + size_t(at[i])] = 1;
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

// Rows longer than a warp too: of equal places, near each other or far apart, the last one stays.
TEST(Scatter, LeavesTheLastOfEqualPlaces) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::u8, DType::boolean})
    for (int64_t length : {1, 9, 100})
      for (const Shape& leading : leading_shapes)
        for (Layout layout : layouts) {
          Array x(with_last(leading, length), dtype, layout), index(with_last(leading, length), DType::i64);
          Array y(with_last(leading, 5), dtype, layout);
          x.randomize(1, 0, dtype == DType::boolean ? 2 : 100), y.randomize(2, 0, 2);
          index.randomize(3, 0, 5);
          std::vector<double> xs = x.values(), at = index.values(), want = y.values();
          for (size_t i = 0; i < at.size(); ++i) want[i / size_t(length) * 5 + size_t(at[i])] = xs[i];
          run_kernel(scatter, x.view(), index.view(), y.view());
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

TEST(Gather, CrossesBlocks) {
  for (DType dtype : {DType::f32, DType::bf16, DType::u8}) {
    Array x({37, 1031}, dtype), index({37, 701}, DType::i32), y({37, 701}, dtype);
    x.randomize(1, 0, 100), index.randomize(2, 0, 1031);
    run_kernel(gather, x.view(), index.view(), y.view());
    std::vector<double> xs = x.values(), at = index.values(), want(at.size());
    for (size_t i = 0; i < at.size(); ++i) want[i] = xs[i / 701 * 1031 + size_t(at[i])];
    EXPECT_EQ(y.values(), want) << dtype;
  }
}

TEST(ScatterAdd, RoundsEachAdditionInTheOrderOfTheRow) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::u8, DType::i32})
    for (int64_t length : {1, 31, 32, 33, 100})
      for (int64_t places : {1, 3, 67}) {
        Array x({9, length}, dtype), index({9, length}, DType::i32), y({9, places}, dtype);
        x.randomize(1, -2, 2), index.randomize(2, 0, double(places)), y.randomize(3, -2, 2);
        if (!is_floating(dtype)) {
          x.fill_with([](int64_t i) { return double(i * 37 % 251); });  // u8 wraps
          y.fill_with([](int64_t i) { return double(i * 91 % 251); });
        }
        std::vector<double> xs = x.values(), at = index.values();
        Array want({9, places}, dtype);
        std::vector<double> start = y.values();
        want.fill_with([&](int64_t i) { return start[size_t(i)]; });
        for (int64_t i = 0; i < 9 * length; ++i) {
          int64_t place = i / length * places + int64_t(at[size_t(i)]);
          double sum =
              element(want.view(), place) + xs[size_t(i)];  // exact in f64, then rounded to the dtype
          set_element(want.view(), place, dtype == DType::u8 ? double(int64_t(sum) & 255) : sum);
        }
        run_kernel(scatter_add, x.view(), index.view(), y.view());
        EXPECT_EQ(y.values(), want.values()) << dtype << " length " << length << " places " << places;
      }
}

// The CPU names the place and has written nothing; a GPU has left out the element, and names its number.
TEST(Index, RefusesABadIndex) {
  bool on_cpu = reprise::testing::test_device() == Device::cpu();
  for (DType index_dtype : {DType::i64, DType::i32})
    for (double bad : {5.0, -1.0}) {
      Array x({3, 5}, DType::f32), index({3, 4}, index_dtype), y({3, 4}, DType::f32), z({3, 5}, DType::f32);
      x.fill_with([](int64_t i) { return double(i); });
      y.fill_with([](int64_t) { return 7.0; }), z.fill_with([](int64_t) { return 7.0; });
      index.fill_with([&](int64_t i) { return i == 6 ? bad : 4.0; });
      std::string place = on_cpu ? " at (1, 2)" : " at element 6";
      std::string fact = "index " + std::to_string(int(bad)) + place + " is outside [0, 5)";
      EXPECT_EQ(error_of(gather, x.view(), index.view(), y.view()), "gather: " + fact);
      std::vector<double> gathered(12, 7), sums(15, 7);
      if (!on_cpu) gathered = {4, 4, 4, 4, 9, 9, 0, 9, 14, 14, 14, 14};
      EXPECT_EQ(y.values(), gathered);
      y.fill_with([](int64_t i) { return double(i); });
      EXPECT_EQ(error_of(scatter_add, y.view(), index.view(), z.view()), "scatter_add: " + fact);
      if (!on_cpu) sums[4] += 0 + 1 + 2 + 3, sums[9] += 4 + 5 + 7, sums[14] += 8 + 9 + 10 + 11;
      EXPECT_EQ(z.values(), sums);
      z.fill_with([](int64_t) { return 7.0; });
      std::vector<double> set(15, 7);
      EXPECT_EQ(error_of(scatter, y.view(), index.view(), z.view()), "scatter: " + fact);
      if (!on_cpu) set[4] = 3, set[9] = 7, set[14] = 11;
      EXPECT_EQ(z.values(), set);
      Array codes({3, 4, 5}, DType::f32);
      EXPECT_EQ(error_of(one_hot, index.view(), codes.view()), "one_hot: " + fact);
      if (!on_cpu) {
        std::vector<double> row(5);
        for (size_t i = 0; i < 5; ++i) row[i] = codes.values()[size_t(6 * 5) + i];
        EXPECT_EQ(row, std::vector<double>(5));
      }
      EXPECT_EQ(error_of(arange, y.view()), "");  // the error was thrown once
    }
}

TEST(Index, RejectsShapesAndDtypesThatDoNotFit) {
  Array x({3, 5}, DType::f32), floats({3, 4}, DType::f32), index({3, 4}, DType::i64), y({3, 4}, DType::f32);
  Array other_rows({2, 5}, DType::f32), other_dtype({3, 4}, DType::f64), other_shape({3, 3}, DType::f32);
  expect_error([&] { run_kernel(gather, x.view(), floats.view(), y.view()); },
               "gather: the index is f32, not i64 or i32");
  expect_error([&] { run_kernel(gather, other_rows.view(), index.view(), y.view()); },
               "gather: leading dimensions differ: (2, 5) and (3, 4)");
  expect_error([&] { run_kernel(gather, x.view(), index.view(), other_dtype.view()); },
               "gather: dtypes differ: f32 and f64");
  expect_error([&] { run_kernel(gather, x.view(), index.view(), other_shape.view()); },
               "gather: shapes differ: (3, 4) and (3, 3)");
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
