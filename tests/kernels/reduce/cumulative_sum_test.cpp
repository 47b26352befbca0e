// Cumulative sums against loops in f64.
#include "reprise/kernels/reduce/cumulative_sum.h"

#include <algorithm>
#include <limits>

#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

std::vector<double> want_of(std::vector<double> x, size_t length, bool reverse) {
  for (size_t row = 0; row < x.size(); row += length)
    for (size_t i = 1; i < length; ++i) {
      const size_t at = reverse ? length - 1 - i : i;
      x[row + at] += x[row + (reverse ? at + 1 : at - 1)];
    }
  return x;
}

std::vector<DType> sums_of(DType dtype) {
  if (dtype == DType::f16 || dtype == DType::bf16) return {dtype, DType::f32};
  return {is_floating(dtype) ? dtype : DType::i64};
}

TEST(CumulativeSum, MatchesTheLoop) {
  for (DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean})
    for (const Shape& shape : {Shape{7}, Shape{3, 33}, Shape{2, 3, 255}, Shape{2, 256}, Shape{2, 257},
                               Shape{3, 1}, Shape{0, 4}, Shape{4, 0}})
      for (Layout layout : layouts)
        for (bool reverse : {false, true})
          for (DType of_sums : sums_of(dtype)) {
            Array x(shape, dtype, layout), y(shape, of_sums, layout);
            x.fill_with(
                [](int64_t i) { return double(i * 7 % 3 == 0); });  // exact in each dtype that counts to 257
            run_kernel(cumulative_sum, x.view(), reverse, y.view());
            EXPECT_EQ(y.values(), want_of(x.values(), size_t(shape.back()), reverse))
                << describe(shape, dtype, layout) << (reverse ? " reverse, in " : ", in ") << of_sums;
            EXPECT_TRUE(y.surroundings_untouched()) << describe(shape, dtype, layout);
          }
}

TEST(CumulativeSum, OfLongRowsIsRoundedOnce) {
  constexpr int64_t length = 30000;
  for (DType dtype : {DType::f32, DType::f64}) {
    Array x({2, length}, dtype), y({2, length}, dtype);
    x.randomize(3, 0, 1);
    run_kernel(cumulative_sum, x.view(), false, y.view());
    const std::vector<double> want = want_of(x.values(), size_t(length), false), got = y.values();
    double worst = 0;
    for (size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - want[i]) / (1 + want[i]));
    EXPECT_LT(worst, dtype == DType::f32 ? 1.2e-7 : 1e-12) << dtype;  // half a unit in the last place is 6e-8
  }
}

TEST(CumulativeSum, OfIntegersWraps) {
  Array x({3}, DType::i64), y({3}, DType::i64);
  const int64_t largest = std::numeric_limits<int64_t>::max();
  const std::vector<int64_t> numbers{largest, 1, 1};
  std::copy(numbers.begin(), numbers.end(), x.view().as<int64_t>());
  run_kernel(cumulative_sum, x.view(), false, y.view());
  EXPECT_EQ(y.view().as<int64_t>()[1], std::numeric_limits<int64_t>::min());
  EXPECT_EQ(y.view().as<int64_t>()[2], std::numeric_limits<int64_t>::min() + 1);
}

TEST(CumulativeSum, RefusesWhatDoesNotFit) {
  Array x({3, 5}, DType::u8), narrow({3, 5}, DType::u8), wide({3, 6}, DType::i64);
  expect_error([&] { run_kernel(cumulative_sum, x.view(), false, narrow.view()); },
               "cumsum: of u8 gives i64, the output is u8");
  expect_error([&] { run_kernel(cumulative_sum, x.view(), false, wide.view()); },
               "cumsum: the sums have shape (3, 6), x has (3, 5)");
}

}  // namespace
}  // namespace reprise::kernels::testing
