// argsort against a selection of one number after the other.
#include "reprise/kernels/index/argsort.h"

#include <cmath>
#include <limits>

#include "reprise/kernels/cuda/cuts.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

// Each place j by the numbers that come before it: those less, and equal ones at lower places.
std::vector<double> want_of(const std::vector<double>& x, size_t length, bool descending) {
  auto is_less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  std::vector<double> places(x.size());
  for (size_t row = 0; row < x.size(); row += length)
    for (size_t i = 0; i < length; ++i) {
      size_t before = 0;
      for (size_t j = 0; j < length; ++j) {
        const double a = x[row + i], b = x[row + j];
        const bool comes_first = descending ? is_less(a, b) : is_less(b, a);
        const bool is_equal = !is_less(a, b) && !is_less(b, a);
        before += comes_first || (is_equal && j < i);
      }
      places[row + before] = double(i);
    }
  return places;
}

TEST(Argsort, MatchesTheDefinition) {
  for (DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8, DType::boolean})
    for (const Shape& shape :
         {Shape{7}, Shape{3, 33}, Shape{2, 3, 5}, Shape{300, 2}, Shape{2, 1}, Shape{0, 4}, Shape{4, 0}})
      for (Layout layout : layouts)
        for (bool descending : {false, true}) {
          Array x(shape, dtype, layout), y(shape, DType::i64, Layout::reversed);
          x.randomize(1, dtype == DType::u8 || dtype == DType::boolean ? 0 : -4, 4);  // integers meet often
          run_kernel(argsort, x.view(), descending, y.view());
          EXPECT_EQ(y.values(), want_of(x.values(), size_t(shape.back()), descending))
              << describe(shape, dtype, layout) << (descending ? " descending" : "");
          EXPECT_TRUE(y.surroundings_untouched()) << describe(shape, dtype, layout);
        }
}

TEST(Argsort, KnowsEveryKindOfNumber) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (bool descending : {false, true}) {
      const std::vector<double> numbers{1, NAN, -inf, 0.0, -0.0, inf, -1, NAN, 1e-3, -1e-3, 0.0};
      Array x({11}, dtype), y({11}, DType::i64);
      x.fill_with([&](int64_t i) { return i == 7 ? -NAN : numbers[size_t(i)]; });
      run_kernel(argsort, x.view(), descending, y.view());
      EXPECT_EQ(y.values(), want_of(numbers, 11, descending)) << dtype;
    }
}

TEST(Argsort, SortsIntegersThatF64Rounds) {
  const int64_t large = std::numeric_limits<int64_t>::max(), least = std::numeric_limits<int64_t>::min();
  const std::vector<int64_t> numbers{large, least, large - 1, 0, -1, least + 1, int64_t(1) << 32, 1};
  Array x({8}, DType::i64), y({8}, DType::i64);
  std::copy(numbers.begin(), numbers.end(), x.view().as<int64_t>());
  run_kernel(argsort, x.view(), false, y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{1, 5, 4, 3, 7, 6, 2, 0}));
}

TEST(Argsort, IsStablePastATileOfTheDevice) {
  const int64_t length = kSortTile + 77;
  Array x({2, length}, DType::f32), y({2, length}, DType::i64);
  x.fill_with([](int64_t i) { return double(i * 7919 % 5); });
  for (bool descending : {false, true}) {
    run_kernel(argsort, x.view(), descending, y.view());
    EXPECT_EQ(y.values(), want_of(x.values(), size_t(length), descending));
  }
}

TEST(Argsort, RefusesWhatDoesNotFit) {
  Array x({3, 5}, DType::f32), narrow({3, 5}, DType::i32), wide({3, 6}, DType::i64);
  expect_error([&] { run_kernel(argsort, x.view(), false, narrow.view()); },
               "argsort: writes i64, the output is i32");
  expect_error([&] { run_kernel(argsort, x.view(), false, wide.view()); },
               "argsort: the places have shape (3, 6), x has (3, 5)");
}

}  // namespace
}  // namespace reprise::kernels::testing
