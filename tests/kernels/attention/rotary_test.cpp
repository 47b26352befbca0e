// Rotary positions against loops in f64.
#include "reprise/kernels/attention/rotary.h"

#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

DType table_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

// x (..., T, D), tables (T, D/2) or of any shape that is broadcast to the rows of x.
struct Case {
  RowArray x, y;
  Array cosines, sines;
  TensorView c, s;

  Case(const Shape& shape, const Shape& table, DType dtype, RowLayout layout)
      : x(shape, dtype, layout),
        y(shape, dtype, layout),
        cosines(table, table_dtype(dtype)),
        sines(table, table_dtype(dtype)) {
    x.randomize(1);
    y.fill(7);
    cosines.randomize(2, -1, 1);
    sines.randomize(3, -1, 1);
    Shape half = shape;
    half[shape.size() - 1] /= 2;
    c = expand(cosines.view(), half);
    s = expand(sines.view(), half);
  }
  void run() { run_kernel(rotary, {.x = x.view(), .y = y.view(), .cosines = c, .sines = s}); }

  std::vector<double> turned() const {
    const std::vector<double> in = x.values(), cos = values_of(c), sin = values_of(s);
    std::vector<double> out(in.size());
    const size_t half = size_t(x.view().shape.back() / 2);
    for (size_t k = 0; k < cos.size(); ++k) {
      const size_t a = k / half * 2 * half + k % half, b = a + half;
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
                                                     {{2, 4, 300, 128}, {300, 64}},
                                                     {{0, 5, 4}, {5, 2}},
                                                     {{2, 3, 0}, {3, 0}}};

TEST(Rotary, MatchesF64LoopsOnEveryDtypeAndLayout) {
  for (const auto& [shape, table] : shapes)
    for (DType dtype : floating_dtypes)
      for (RowLayout layout : row_layouts) {
        Case c(shape, table, dtype, layout);
        c.run();
        const std::string what = describe(shape, dtype, Layout::contiguous);
        expect_near(c.y.values(), c.turned(), 4 * epsilon_of(dtype),
                    what);  // a rounding of each product and sum
        EXPECT_TRUE(layout == RowLayout::contiguous || c.y.gaps_hold(7)) << what;
      }
}

TEST(Rotary, WritesWhereItReads) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Case apart({2, 3, 9, 20}, {9, 10}, dtype, RowLayout::padded),
        in_place({2, 3, 9, 20}, {9, 10}, dtype, RowLayout::padded);
    apart.run();
    run_kernel(rotary,
               {.x = in_place.x.view(), .y = in_place.x.view(), .cosines = in_place.c, .sines = in_place.s});
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
      half({3, 8}, {3, 4}, DType::bf16, RowLayout::contiguous),
      odd({3, 7}, {3, 3}, DType::f32, RowLayout::contiguous),
      wide({3, 10}, {3, 5}, DType::f32, RowLayout::contiguous);
  auto refused = [](const RotaryArguments& arguments, const char* message) {
    expect_error([&] { run_kernel(rotary, arguments); }, message);
  };
  refused({.x = c.x.view(), .y = wide.y.view(), .cosines = c.c, .sines = c.s},
          "rotary: shapes differ: (3, 8) and (3, 10)");
  refused({.x = c.x.view(), .y = half.y.view(), .cosines = c.c, .sines = c.s},
          "rotary: dtypes differ: f32 and bf16");
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
