// Reductions against naive loops in f64, over every set of dimensions, dtypes and layouts.
// not in tsan: Reduce.SumsPacksOfEveryDtype:Reduce.SumsMorePlacesThanALaunchHasBlocks:Reduce.CarriesNan:Reduce.FindsMaxAndMinInLongRowsAndColumns
#include "reprise/kernels/reduce/reduce.h"

#include <functional>

#include "reprise/core/parallel.h"
#include "reprise/kernels/reduce/split.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

/// `shape` with size 1 in the dimensions whose bit is set.
Shape reduced_shape(const Shape& shape, unsigned dims) {
  Shape out = shape;
  for (int dim = 0; dim < shape.size(); ++dim)
    if (dims >> dim & 1) out[dim] = 1;
  return out;
}

std::vector<double> naive(const TensorView& x, const Shape& shape, double start,
                          const std::function<double(double, double)>& f) {
  std::vector<double> results(size_t(numel_of(shape)), start);
  TensorView places = x;  // of each element's result
  places.shape = x.shape;
  places.strides = contiguous_strides(shape);
  for (int dim = 0; dim < x.rank(); ++dim)
    if (shape[dim] == 1) places.strides[dim] = 0;
  for (int64_t i = 0; i < x.numel(); ++i) {
    double& result = results[size_t(offset_of(places, i))];
    result = f(result, element(x, offset_of(x, i)));
  }
  return results;
}

double add(double a, double b) { return a + b; }

TEST(Reduce, SumsOverEverySetOfDimensions) {
  // Chains of at most 64 additions with totals in f64: 64 half-spacings of the partial sums is a safe bound,
  // and |x| < 4 keeps them below 4 n; the sum is rounded once to the dtype.
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
    for (const Shape& shape : small_shapes())
      for (unsigned dims = 0; dims < 1u << shape.size(); ++dims)
        for (Layout layout : layouts) {
          Array x(shape, dtype, layout), y(reduced_shape(shape, dims), dtype, layout);
          x.randomize(1);
          run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
          double unit = dtype == DType::f64 ? 0x1p-52 : 0x1p-23;
          expect_near(y.values(), naive(x.view(), y.view().shape, 0, add),
                      64 * 4 * unit + epsilon_of(dtype) / 2, "sum " + describe(shape, dtype, layout));
          EXPECT_TRUE(y.surroundings_untouched()) << describe(shape, dtype, layout);
        }
}

TEST(Reduce, FindsMaxAndMinOverEverySetOfDimensions) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i64, DType::u8})
    for (const Shape& shape : small_shapes())
      for (unsigned dims = 0; dims < 1u << shape.size(); ++dims) {
        if (numel_of(shape) == 0) continue;
        for (Layout layout : layouts) {
          Array x(shape, dtype, layout), y(reduced_shape(shape, dims), dtype);
          x.randomize(2, 0, 100);
          const Shape& out = y.view().shape;
          run_kernel(reduce, ReduceOp::max, x.view(), y.view());
          EXPECT_EQ(y.values(),
                    naive(x.view(), out, -1e9, [](double a, double b) { return std::max(a, b); }));
          run_kernel(reduce, ReduceOp::min, x.view(), y.view());
          EXPECT_EQ(y.values(), naive(x.view(), out, 1e9, [](double a, double b) { return std::min(a, b); }));
        }
      }
}

TEST(Reduce, SumsLargeTensorsTheSameAtAnyNumberOfThreads) {
  // Long rows, many rows, columns, narrow columns, both at once; sizes beside the borders of pieces and
  // chunks.
  struct Case {
    Shape shape;
    unsigned dims;
  };
  constexpr int64_t rows = kRowsOfColumns, width = kLeastWidth;
  const std::vector<Case> cases = {
      {{6 * kPiece + 1699}, 1},   {{3, 2 * kPiece + 233}, 2},        {{3001, 2 * width + 1}, 2},
      {{3001, 2 * width + 1}, 1}, {{8 * rows + 5, kChunk + 513}, 1}, {{rows + 1, kChunk + 1}, 1},
      {{kPiece + 3627, 3}, 1},    {{kPiece + 3627, 3}, 2},           {{7, 101, 129}, 2},
      {{7, 101, 129}, 5},         {{11, rows - 1, 5, width + 1}, 5}, {{11, rows - 1, 5, width + 1}, 10},
      {{2, kChunk, 64}, 4},       {{2, kPiece + 616, 3}, 6}};
  int threads = num_threads();
  bool on_cpu = reprise::testing::test_device() == Device::cpu();
  for (const Case& c : cases)
    for (Layout layout : {Layout::contiguous, Layout::rotated, Layout::stepped}) {
      Array x(c.shape, DType::f32, layout), y(reduced_shape(c.shape, c.dims), DType::f32);
      x.randomize(3);
      std::vector<double> first;
      for (int count = 1; count <= (on_cpu ? 3 : 1); ++count) {
        set_num_threads(count);
        run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
        if (first.empty()) first = y.values();
        EXPECT_EQ(y.values(), first) << count << " threads, " << describe(c.shape, DType::f32, layout);
      }
      // f32 chains of 64 on partial sums below 256, then f64; against the sum of |x|, 2e-6 relative is ample.
      expect_near(first, naive(x.view(), y.view().shape, 0, add), 64 * 256 * 0x1p-24,
                  describe(c.shape, DType::f32, layout));
    }
  set_num_threads(threads);
}

// Rows and columns that packs of 16 bytes fit, or would if they began one element earlier; long enough to be
// cut into pieces, and narrower than a block.
TEST(Reduce, SumsPacksOfEveryDtype) {
  struct Case {
    Shape shape;
    unsigned dims;
  };
  for (const Case& c :
       {Case{{67, 24}, 2}, Case{{9, 2048}, 2}, Case{{5, 24576}, 2}, Case{{3, 16, 520}, 6},
        Case{{1030, 72}, 1}, Case{{2, 600, 264}, 2}, Case{{70, 8, 16}, 3}, Case{{33, 4104}, 1}})
    for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16})
      for (DType to : {dtype, dtype == DType::f64 ? dtype : DType::f32})
        for (Layout layout : {Layout::contiguous, Layout::offset}) {
          Array x(c.shape, dtype, layout), y(reduced_shape(c.shape, c.dims), to, layout);
          x.randomize(5);
          run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
          // As above: chains of 64 in f32 on partial sums below 256, totals in f64, rounded once.
          expect_near(y.values(), naive(x.view(), y.view().shape, 0, add),
                      (dtype == DType::f64 ? 0 : 64 * 256 * 0x1p-24) + epsilon_of(to),
                      describe(c.shape, dtype, layout));
          EXPECT_TRUE(y.surroundings_untouched()) << describe(c.shape, dtype, layout);
        }
}

TEST(Reduce, SumsMorePlacesThanALaunchHasBlocks) {
  Array x({8200, 2, 8}, DType::f32), y({8200, 1, 8}, DType::f32);
  x.fill_with([](int64_t i) { return double(i % 4099); });
  run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
  EXPECT_EQ(y.values(), naive(x.view(), y.view().shape, 0, add));
}

TEST(Reduce, FindsMaxAndMinInLongRowsAndColumns) {
  for (const auto& [shape, dims] :
       {std::pair<Shape, unsigned>{{3, 20011}, 2}, {{701, 33}, 1}, {{5, 33001}, 1}})
    for (DType dtype : {DType::f32, DType::i32})
      for (Layout layout : {Layout::contiguous, Layout::stepped}) {
        Array x(shape, dtype, layout), y(reduced_shape(shape, dims), dtype);
        x.randomize(6, -1e6, 1e6);
        const Shape& out = y.view().shape;
        run_kernel(reduce, ReduceOp::max, x.view(), y.view());
        EXPECT_EQ(y.values(), naive(x.view(), out, -1e9, [](double a, double b) { return std::max(a, b); }));
        run_kernel(reduce, ReduceOp::min, x.view(), y.view());
        EXPECT_EQ(y.values(), naive(x.view(), out, 1e9, [](double a, double b) { return std::min(a, b); }));
      }
}

TEST(Reduce, StaysAccurateWhereAPlainF32SumDoesNot) {
  // 2^22 + ... of 0.1: a single f32 chain is off by far more than 1 part in 10^5.
  Array x({1 << 20}, DType::f32), y({1}, DType::f32), columns({1 << 15, 32}, DType::f32),
      sums({1, 32}, DType::f32);
  for (const Array* array : {&x, &columns})
    std::fill_n(static_cast<float*>(array->view().data), array->view().numel(), 0.1f);
  run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
  expect_near(y.values(), {double(0.1f) * (1 << 20)}, 0x1p-22, "sum of 2^20 times 0.1");
  run_kernel(reduce, ReduceOp::sum, columns.view(), sums.view());
  expect_near(sums.values(), std::vector<double>(32, double(0.1f) * (1 << 15)), 0x1p-21,
              "sums of 2^15 times 0.1");
}

TEST(Reduce, SumsIntegersAndBoolsInI64) {
  Array x({3, 5}, DType::i32), flags({3, 5}, DType::boolean), y({3, 1}, DType::i64);
  x.fill_with([](int64_t) { return 2147483647.0; });
  flags.fill_with([](int64_t i) { return i % 2; });
  run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
  EXPECT_EQ(y.values(), std::vector<double>(3, 5 * 2147483647.0));
  run_kernel(reduce, ReduceOp::sum, flags.view(), y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{2, 3, 2}));
  // f64 would not hold the sums of pieces: 2^53 + 1 rounds to 2^53.
  Array large({3 * kPiece + 5}, DType::i64), sum({1}, DType::i64);
  large.fill_with([](int64_t i) {
    return i == 0 ? 0x1p53 : i == kPiece + 1 ? 1 : i == 3 * kPiece ? -0x1p53 : 0;
  });
  run_kernel(reduce, ReduceOp::sum, large.view(), sum.view());
  EXPECT_EQ(sum.values(), std::vector<double>{1});
}

TEST(Reduce, KeepsHalfSumsInF32WhenAsked) {
  Array x({4099, 17}, DType::bf16), y({1, 17}, DType::f32);
  x.fill_with([](int64_t) { return 1.0; });
  run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
  EXPECT_EQ(y.values(), std::vector<double>(17, 4099));
}

TEST(Reduce, CarriesNan) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t length : {3, 70, 2000, 40000})
    for (int64_t at : {int64_t(0), length / 2, length - 1})
      for (Shape shape : {Shape{length, 1}, Shape{length, 17}}) {
        Array x(shape, DType::f32), y({1, shape[1]}, DType::f32);
        x.fill_with([&](int64_t i) { return i / shape[1] == at ? nan : 1.0; });
        for (ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
          run_kernel(reduce, op, x.view(), y.view());
          for (double value : y.values())
            EXPECT_TRUE(std::isnan(value)) << shape << " NaN at " << at << " op " << int(op);
        }
      }
}

TEST(Reduce, OfNothingSumsToZeroAndHasNoMax) {
  Array x({3, 0, 5}, DType::f32), y({3, 1, 5}, DType::f32);
  run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
  EXPECT_EQ(y.values(), std::vector<double>(15, 0));
  expect_error([&] { run_kernel(reduce, ReduceOp::max, x.view(), y.view()); },
               "reduce: max and min of nothing");
  expect_error([&] { run_kernel(reduce, ReduceOp::min, x.view(), y.view()); },
               "reduce: max and min of nothing");
}

TEST(Reduce, ReducesEightDimensionsThatDoNotMerge) {
  Shape shape = {2, 3, 2, 3, 2, 3, 2, 3};
  Array x(shape, DType::f32, Layout::stepped), y(Dims::filled(8, 1), DType::f32);
  x.fill_with([](int64_t i) { return double(i); });
  run_kernel(reduce, ReduceOp::sum, x.view(), y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{1295 * 1296 / 2}));
}

TEST(Reduce, RejectsShapesAndDtypesThatDoNotFit) {
  Array x({3, 5}, DType::f32), rank({3}, DType::f32), size({3, 2}, DType::f32), dtype({3, 1}, DType::i64);
  for (const Array* y : {&rank, &size, &dtype})
    expect_error([&] { run_kernel(reduce, ReduceOp::sum, x.view(), y->view()); }, "reduce: ");
}

TEST(Argmax, FindsTheFirstLargestAndTakesNanAsLargest) {
  for (DType dtype : {DType::f64, DType::f32, DType::bf16, DType::i32, DType::u8})
    for (Layout layout : layouts) {
      Array x({3, 5, 2051}, dtype, layout), y({3, 5, 1}, DType::i64, Layout::reversed);
      x.randomize(4, 0, 50);  // many equal values
      run_kernel(argmax, x.view(), y.view());
      std::vector<double> xs = x.values(), got = y.values();
      for (size_t row = 0; row < 15; ++row)
        EXPECT_EQ(got[row],
                  double(std::max_element(xs.begin() + long(row) * 2051, xs.begin() + long(row + 1) * 2051) -
                         xs.begin() - long(row) * 2051))
            << describe({3, 5, 2051}, dtype, layout) << " row " << row;
    }
  float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Array x({4}, DType::f32), y({1}, DType::i64);
  x.fill_with([&](int64_t i) { return std::array{1.0f, inf, nan, nan}[size_t(i)]; });
  run_kernel(argmax, x.view(), y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{2}));
}

TEST(Argmax, TakesTheFirstOfEqualsAtAnyLength) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  for (int64_t length : {1, 31, 33, 1000, 1100, 5000})
    for (double largest : {9.0, nan})
      for (int64_t at : {int64_t(0), length / 2, length - 1}) {
        Array x({3, length}, DType::f32), y({3, 1}, DType::i64);
        x.fill_with([&](int64_t i) { return i % length >= at && i % 5 != 1 ? largest : -5.0; });
        std::vector<double> xs = x.values(), want;
        for (int64_t row = 0; row < 3; ++row) {
          int64_t i = 0;
          while (i + 1 < length && xs[size_t(row * length + i)] == -5.0) ++i;
          want.push_back(double(xs[size_t(row * length + i)] == -5.0 ? 0 : i));
        }
        run_kernel(argmax, x.view(), y.view());
        EXPECT_EQ(y.values(), want) << "length " << length << " from " << at;
      }
}

TEST(Argmax, RejectsAnEmptyDimensionAndOtherShapes) {
  Array empty({3, 0}, DType::f32), x({3, 5}, DType::f32), y({3, 1}, DType::i64), wide({3, 5}, DType::i64);
  expect_error([&] { run_kernel(argmax, empty.view(), y.view()); },
               "argmax: the last dimension of (3, 0) is empty");
  expect_error([&] { run_kernel(argmax, x.view(), wide.view()); },
               "argmax: (3, 5) does not reduce to (3, 5)");
}

}  // namespace
}  // namespace reprise::kernels::testing
