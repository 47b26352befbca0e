// Copies and fills against element-by-element assignment.
#include "reprise/kernels/elementwise/copy.h"

#include "reprise/core/parallel.h"
#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/strided.h"
#include "reprise/tests/kernels/views.h"

namespace reprise::kernels::testing {
namespace {

constexpr DType all_dtypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                DType::i64, DType::i32, DType::u8,   DType::boolean};

TEST(Copy, MatchesAssignmentForEveryPairOfLayouts) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f64, DType::u8})
    for (const Shape& shape : small_shapes())
      for (Layout from : layouts)
        for (Layout to : layouts) {
          Array x(shape, dtype, from), y(shape, dtype, to);
          x.randomize(1, 0, 200);
          run_kernel(copy, x.view(), y.view());
          EXPECT_EQ(y.values(), x.values()) << describe(shape, dtype, from) << " to layout " << int(to);
          EXPECT_TRUE(y.surroundings_untouched()) << describe(shape, dtype, from) << " to layout " << int(to);
        }
}

TEST(Copy, MovesLargeTensorsInEveryLayout) {
  // More than one task each; 131 and 257 are no multiples of a block.
  for (const Shape& shape : {Shape{2 * kPiece / 257 + 4, 257}, Shape{5, 67, 117}, Shape{kPiece + 6617, 3}})
    for (Layout from : layouts)
      for (Layout to : layouts) {
        Array x(shape, DType::f32, from), y(shape, DType::f32, to);
        x.fill_with([](int64_t i) { return double(i % 100003); });
        run_kernel(copy, x.view(), y.view());
        EXPECT_EQ(y.values(), x.values()) << describe(shape, DType::f32, from) << " to layout " << int(to);
      }
}

/// Matrices in memory: `skipped` elements first, `gap` after each row, `batch_gap` after each matrix.
struct Matrices {
  int64_t skipped = 0, gap = 0, batch_gap = 0;

  int64_t elements(int64_t batch, int64_t rows, int64_t columns) const {
    return batch * (rows * (columns + gap) + batch_gap);
  }
  TensorView of(const Array& memory, int64_t batch, int64_t rows, int64_t columns) const {
    TensorView view = memory.view();
    view.shape = {batch, rows, columns};
    view.strides = {rows * (columns + gap) + batch_gap, columns + gap, 1};
    return view;
  }
};

TEST(Copy, TransposesMatricesOfAnySizeAndPlace) {
  // Sides around a tile and around one of pairs; for pairs of half types everything even, or one thing odd.
  constexpr int64_t side = kCopyTile;
  const std::pair<Matrices, Matrices> places[] = {{{}, {}},        {{1}, {}},       {{}, {1}},
                                                  {{0, 1}, {}},    {{}, {0, 1}},    {{0, 2}, {0, 2}},
                                                  {{0, 0, 1}, {}}, {{}, {0, 0, 1}}, {{1, 1, 1}, {1, 1, 1}}};
  for (DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{8, 9},
                                 {2 * side, 2 * side},
                                 {2 * side + 2, 4 * side + 2},
                                 {2 * side - 1, side},
                                 {side + 1, 3 * side - 1},
                                 {side + 2, 2 * side + 1},
                                 {4 * side + 2, 8}})
      for (const auto& [x_place, y_place] : places)
        for (int64_t batch : {1, 3}) {
          Array x({x_place.elements(batch, columns, rows)}, dtype, Layout::contiguous, x_place.skipped);
          Array y({y_place.elements(batch, rows, columns)}, dtype, Layout::contiguous, y_place.skipped);
          x.fill_with([](int64_t i) { return double(i % 241); });
          y.fill_with([](int64_t) { return 250; });  // stays in the gaps
          TensorView from = transpose(x_place.of(x, batch, columns, rows), 1, 2);
          TensorView to = y_place.of(y, batch, rows, columns);
          std::vector<double> want = y.values(), moved = values_of(from);
          for (size_t i = 0; i < moved.size(); ++i) want[size_t(offset_of(to, int64_t(i)))] = moved[i];
          run_kernel(copy, from, to);
          ASSERT_EQ(y.values(), want)
              << dtype << " " << to.shape << " from " << from.strides << " to " << to.strides;
          EXPECT_TRUE(y.surroundings_untouched());
        }
}

TEST(Copy, MovesHeadsOfAttentionBothWays) {
  // (B, T, H, D) to (B, H, T, D) and back: rows stay, their order changes.
  for (DType dtype : {DType::bf16, DType::f32}) {
    Array x({2, 19, 3, 16}, dtype), heads({2, 3, 19, 16}, dtype), back({2, 19, 3, 16}, dtype);
    x.randomize(4);
    run_kernel(copy, transpose(x.view(), 1, 2), heads.view());
    EXPECT_EQ(heads.values(), values_of(transpose(x.view(), 1, 2)));
    run_kernel(copy, transpose(heads.view(), 1, 2), back.view());
    EXPECT_EQ(back.values(), x.values());
  }
}

TEST(Copy, StartsAtAnyByteOffset) {
  for (DType dtype : {DType::u8, DType::bf16, DType::f32, DType::f64})
    for (int64_t skipped = 0; skipped * int64_t(size_of(dtype)) < 16; ++skipped) {
      Array x({37}, dtype, Layout::contiguous, skipped), y({37}, dtype, Layout::contiguous, 15 - skipped);
      x.randomize(2, 0, 200);
      run_kernel(copy, x.view(), y.view());
      EXPECT_EQ(y.values(), x.values()) << dtype << " skipping " << skipped;
      EXPECT_TRUE(y.surroundings_untouched()) << dtype << " skipping " << skipped;
    }
}

TEST(Copy, ReadsBroadcastViews) {
  Array row({1, 5}, DType::f32), y({3, 5}, DType::f32);
  row.randomize(3);
  run_kernel(copy, expand(row.view(), {3, 5}), y.view());
  EXPECT_EQ(y.values(), values_of(expand(row.view(), {3, 5})));
}

TEST(Copy, CastsBetweenAllDtypes) {
  // Small whole numbers and halves are exact in every floating type; integers keep the part before the point.
  for (DType from : all_dtypes)
    for (DType to : all_dtypes)
      for (Layout layout : layouts) {
        Array x({3, 5, 7}, from, Layout::rotated), y({3, 5, 7}, to, layout);
        x.fill_with([](int64_t i) { return double(i % 41) * 0.5; });
        run_kernel(copy, x.view(), y.view());
        std::vector<double> want = x.values();
        for (double& value : want)
          value = to == DType::boolean ? value != 0 : is_floating(to) ? value : std::trunc(value);
        EXPECT_EQ(y.values(), want) << from << " to " << describe({3, 5, 7}, to, layout);
      }
}

TEST(Copy, RoundsToNearestEvenWhenNarrowing) {
  Array x({4}, DType::f32), y({4}, DType::bf16);
  const double values[] = {1 + 0x1p-8, 1 + 0x3p-8, 1 + 0x1.1p-8, -1 - 0x1p-8};
  x.fill_with([&](int64_t i) { return values[i]; });
  run_kernel(copy, x.view(), y.view());
  EXPECT_EQ(y.values(), (std::vector<double>{1, 1 + 0x1p-6, 1 + 0x1p-7, -1}));
}

TEST(Copy, TruncatesAndSaturatesFloatsToIntegers) {
  double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> numbers = {1.9, -1.9, -0.5, 3e9, -3e9, 300, inf, -inf, nan};
  for (DType from : {DType::f32, DType::f64}) {
    Array x({9}, from), i32({9}, DType::i32), u8({9}, DType::u8), i64({9}, DType::i64),
        boolean({9}, DType::boolean);
    x.fill_with([&](int64_t i) { return numbers[size_t(i)]; });
    for (const Array* y : {&i32, &u8, &i64, &boolean}) run_kernel(copy, x.view(), y->view());
    EXPECT_EQ(i32.values(),
              (std::vector<double>{1, -1, 0, 2147483647, -2147483648., 300, 2147483647, -2147483648., 0}));
    EXPECT_EQ(u8.values(), (std::vector<double>{1, 0, 0, 255, 0, 255, 255, 0, 0}));
    EXPECT_EQ(i64.values(), (std::vector<double>{1, -1, 0, 3e9, -3e9, 300, 0x1p63, -0x1p63, 0}));
    EXPECT_EQ(boolean.values(), (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 1}));
  }
}

TEST(Copy, KeepsNanPayloads) {
  Array x({3}, DType::f32), y({3}, DType::f32, Layout::stepped);
  auto* bits = static_cast<uint32_t*>(x.view().data);
  bits[0] = 0x7fc12345u, bits[1] = 0xffc00001u, bits[2] = 0x80000000u;
  run_kernel(copy, x.view(), y.view());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(static_cast<uint32_t*>(y.view().data)[2 * i], bits[i]);
}

TEST(Copy, RejectsOtherShapes) {
  Array x({3, 5}, DType::f32), y({5, 3}, DType::f32);
  try {
    run_kernel(copy, x.view(), y.view());
    FAIL() << "no Error";
  } catch (const Error& error) { EXPECT_STREQ(error.what(), "copy: shapes differ: (3, 5) and (5, 3)"); }
}

TEST(Fill, SetsEveryElementAndNothingElse) {
  for (DType dtype : all_dtypes)
    for (const Shape& shape : small_shapes())
      for (Layout layout : layouts) {
        Array y(shape, dtype, layout);
        run_kernel(fill, y.view(), 1);
        EXPECT_EQ(y.values(), std::vector<double>(size_t(y.view().numel()), 1))
            << describe(shape, dtype, layout);
        EXPECT_TRUE(y.surroundings_untouched()) << describe(shape, dtype, layout);
      }
}

TEST(Fill, CastsTheValue) {
  Array f16({2}, DType::f16), i32({2}, DType::i32), boolean({2}, DType::boolean);
  for (const Array* y : {&f16, &i32, &boolean}) run_kernel(fill, y->view(), -2.75);
  EXPECT_EQ(f16.values(), (std::vector<double>{-2.75, -2.75}));
  EXPECT_EQ(i32.values(), (std::vector<double>{-2, -2}));
  EXPECT_EQ(boolean.values(), (std::vector<double>{1, 1}));
}

}  // namespace
}  // namespace reprise::kernels::testing
