// Rotary positions against loops in f64.
#include "reprise/kernels/attention/rotary.h"

#include <optional>

#include "reprise/kernels/elementwise/copy.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

DType table_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

constexpr RotaryPairs all_pairs[] = {RotaryPairs::halves, RotaryPairs::adjacent};

// x (..., T, D), tables (T, D/2) or of any shape that is broadcast to the rows of x.
struct Case {
  RowArray x, y;
  Array cosines, sines;
  TensorView c, s;
  RotaryPairs pairs;

  Case(const Shape& shape, const Shape& table, DType dtype, RowLayout layout,
       RotaryPairs turned_together = RotaryPairs::halves, std::optional<DType> dtype_of_y = {})
      : x(shape, dtype, layout),
        y(shape, dtype_of_y.value_or(dtype), layout),
        cosines(table, table_dtype(dtype)),
        sines(table, table_dtype(dtype)),
        pairs(turned_together) {
    x.randomize(1);
    y.fill(7);
    cosines.randomize(2, -1, 1);
    sines.randomize(3, -1, 1);
    Shape half = shape;
    half[shape.size() - 1] /= 2;
    c = expand(cosines.view(), half);
    s = expand(sines.view(), half);
  }
  void run() { run_kernel(rotary, {.x = x.view(), .y = y.view(), .cosines = c, .sines = s, .pairs = pairs}); }

  std::vector<double> turned() const {
    const std::vector<double> in = x.values(), cos = values_of(c), sin = values_of(s);
    std::vector<double> out(in.size());
    const size_t half = size_t(x.view().shape.back() / 2);
    for (size_t k = 0; k < cos.size(); ++k) {
      const bool side_by_side = pairs == RotaryPairs::adjacent;
      const size_t a = k / half * 2 * half + k % half * (side_by_side ? 2 : 1),
                   b = a + (side_by_side ? 1 : half);
      out[a] = in[a] * cos[k] - in[b] * sin[k];
      out[b] = in[b] * cos[k] + in[a] * sin[k];
    }
    return out;
  }
};

// Heads as attention has them, of widths that packs fit and do not; more rows than one task has; none.
const std::vector<std::pair<Shape, Shape>> shapes = {{{2}, {1}},
                                                     {{6}, {3}},
                                                     {{5, 64}, {5, 32}},
                                                     {{2, 3, 7, 16}, {7, 8}},
                                                     {{3, 2, 5, 34}, {3, 1, 5, 17}},
                                                     {{2, 3, 50, 128}, {50, 64}},
                                                     {{0, 5, 4}, {5, 2}},
                                                     {{2, 3, 0}, {3, 0}}};

TEST(Rotary, MatchesF64LoopsOnEveryDtypeAndLayout) {
  for (const auto& [shape, table] : shapes)
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : row_layouts)
        for (RotaryPairs pairs : all_pairs) {
          Case c(shape, table, dtype, layout, pairs);
          c.run();
          const std::string what = describe(shape, dtype, Layout::contiguous);
          expect_near(c.y.values(), c.turned(), 4 * epsilon_of(dtype),
                      what);  // a rounding of each product and sum
          EXPECT_TRUE(layout == RowLayout::contiguous || c.y.gaps_hold(7)) << what;
        }
}

// f32 and 16 bits beside each other: the bits of the kernel for f32 alone, on widened numbers, and one rounding.
TEST(Rotary, WritesEachDTypeWithTheBitsOfF32AndACast) {
  constexpr DType dtypes[] = {DType::f32, DType::bf16, DType::f16};
  for (const auto& [shape, table] : shapes)
    for (RotaryPairs pairs : all_pairs)
      for (DType of_x : dtypes)
        for (DType of_y : dtypes) {
          Case c(shape, table, of_x, RowLayout::padded, pairs, of_y);
          Case wide(shape, table, DType::f32, RowLayout::contiguous, pairs);
          copy(Stream(Device::cpu()), c.x.view(), wide.x.view());
          RowArray want(shape, of_y);
          c.run(), wide.run();
          copy(Stream(Device::cpu()), wide.y.view(), want.view());
          EXPECT_EQ(c.y.values(), want.values()) << shape << ", " << of_x << " to " << of_y;
          EXPECT_TRUE(c.y.gaps_hold(7));
        }
}

TEST(Rotary, WritesWhereItReads) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (RotaryPairs pairs : all_pairs) {
      Case apart({2, 3, 9, 20}, {9, 10}, dtype, RowLayout::padded, pairs),
          in_place({2, 3, 9, 20}, {9, 10}, dtype, RowLayout::padded, pairs);
      apart.run();
      run_kernel(rotary, {.x = in_place.x.view(),
                          .y = in_place.x.view(),
                          .cosines = in_place.c,
                          .sines = in_place.s,
                          .pairs = pairs});
      EXPECT_EQ(in_place.x.values(), apart.y.values());
    }
}

TEST(Rotary, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Case c({4, 3, 257, 36}, {257, 18}, DType::bf16, RowLayout::padded);
    c.run();
    return c.y.values();
  });
}

TEST(Rotary, RefusesViewsThatDoNotFit) {
  const Case c({3, 8}, {3, 4}, DType::f32, RowLayout::contiguous),
      exact({3, 8}, {3, 4}, DType::f64, RowLayout::contiguous),
      odd({3, 7}, {3, 3}, DType::f32, RowLayout::contiguous),
      wide({3, 10}, {3, 5}, DType::f32, RowLayout::contiguous);
  auto refused = [](const RotaryArguments& arguments, const char* message) {
    expect_error([&] { run_kernel(rotary, arguments); }, message);
  };
  refused({.x = c.x.view(), .y = wide.y.view(), .cosines = c.c, .sines = c.s},
          "rotary: shapes differ: (3, 8) and (3, 10)");
  refused({.x = c.x.view(), .y = exact.y.view(), .cosines = c.c, .sines = c.s},
          "rotary: the result is f64 of f32");
  Array whole({3, 8}, DType::i64);
  refused({.x = c.x.view(), .y = whole.view(), .cosines = c.c, .sines = c.s},
          "rotary: needs a floating dtype, got i64");
  refused({.x = odd.x.view(), .y = odd.y.view(), .cosines = odd.c, .sines = odd.s},
          "an even number of channels, got (3, 7)");
  refused({.x = c.x.view(), .y = c.y.view(), .cosines = c.c, .sines = wide.s},
          "rotary: shapes differ: (3, 4) and (3, 5)");
  Array low({3, 4}, DType::bf16);
  refused({.x = c.x.view(), .y = c.y.view(), .cosines = low.view(), .sines = c.s},
          "rotary: tables of bf16 for f32");
  Array stepped({3, 8}, DType::f32, Layout::reversed);
  refused({.x = stepped.view(), .y = c.y.view(), .cosines = c.c, .sines = c.s},
          "rotary: rows must have stride 1");
}

}  // namespace
}  // namespace reprise::kernels
