// Dropout against a loop over Philox draws.
#include "reprise/kernels/elementwise/dropout.h"

#include "reprise/kernels/cpu/simd_random.h"
#include "reprise/kernels/strided.h"
#include "reprise/tests/kernels/row_views.h"

namespace reprise::kernels {
namespace {

using namespace testing;

constexpr uint64_t kSeed = 0x123456789abcdef0, kOffset = 0xfedcba9876543210;

TEST(Dropout, KeepsExactlyTheElementsThatPhiloxKeeps) {
  std::vector<Shape> shapes = small_shapes();
  shapes.push_back({3, kPiece / 3 + 40});  // more than one task
  for (const Shape& shape : shapes)
    for (DType dtype : floating_dtypes)
      for (Layout layout : layouts)
        for (double p : {0.0, 0.1, 0.5, 0.999}) {
          Array x(shape, dtype, layout), y(shape, dtype, layout);
          x.randomize(1, 1, 4);
          run_kernel(dropout, x.view(), p, kSeed, kOffset, y.view());
          std::vector<double> want = x.values();
          for (size_t i = 0; i < want.size(); ++i)
            want[i] *= to_unit_float(philox_block(kSeed, kOffset, i / 4)[i % 4]) >= p ? 1 / (1 - p) : 0;
          // The scale, the product and the result are rounded.
          expect_near(y.values(), want, 2 * epsilon_of(dtype), describe(shape, dtype, layout));
          EXPECT_TRUE(y.surroundings_untouched());
        }
}

TEST(Dropout, GivesTheBitsOfTheCpu) {
  for (DType dtype : floating_dtypes)
    for (int64_t skipped : {0, 1}) {
      Array x({5, 411}, dtype, Layout::contiguous, skipped), y({5, 411}, dtype), want({5, 411}, dtype);
      x.randomize(1);
      run_kernel(dropout, x.view(), 0.3, kSeed, kOffset, y.view());
      dropout(Stream(Device::cpu()), x.view(), 0.3, kSeed, kOffset, want.view());
      EXPECT_EQ(y.values(), want.values()) << dtype;
    }
}

TEST(Dropout, KeepsADrawThatEqualsP) {
  for (size_t i : {0u, 5u, 8u}) {
    Array x({9}, DType::f32), y({9}, DType::f32);
    x.fill_with([](int64_t) { return 1; });
    double draw = to_unit_float(philox_block(kSeed, kOffset, i / 4)[i % 4]);
    run_kernel(dropout, x.view(), draw, kSeed, kOffset, y.view());
    EXPECT_NE(y.values()[i], 0);
    run_kernel(dropout, x.view(), draw + 0x1p-26, kSeed, kOffset, y.view());
    EXPECT_EQ(y.values()[i], 0);
  }
}

TEST(Dropout, WritesOverItsInputAndDropsNaN) {
  Array x({37}, DType::f32), y({37}, DType::f32);
  x.randomize(1).fill_with([](int64_t i) { return i % 3 == 0 ? std::nan("") : 1.0; });
  run_kernel(dropout, x.view(), 0.5, 1, 2, y.view());
  run_kernel(dropout, x.view(), 0.5, 1, 2, x.view());
  expect_near(x.values(), y.values(), 0, "in place");
  for (size_t i = 0; i < 37; ++i) {
    bool kept = to_unit_float(philox_block(1, 2, i / 4)[i % 4]) >= 0.5;
    EXPECT_TRUE(kept || y.values()[i] == 0) << i;
  }
}

TEST(SimdPhilox, GivesTheDrawsOfPhiloxBlockAcrossTheEndOf32Bits) {
  uint64_t first = 0xfffffffeu;
  simd::Vector<uint32_t, 8> draws[4];
  simd::philox_draws<8>(kSeed, kOffset, first, draws);
  for (uint64_t i = 0; i < 32; ++i)
    EXPECT_EQ(draws[i / 8][i % 8], philox_block(kSeed, kOffset, first + i / 4)[i % 4]) << i;
}

TEST(Dropout, IsExactAcrossThreadCounts) {
  expect_same_at_any_thread_count([] {
    Array x({257, 129}, DType::f32), y({257, 129}, DType::f32);
    x.randomize(1);
    run_kernel(dropout, x.view(), 0.3, 1, 2, y.view());
    return y.values();
  });
}

TEST(Dropout, RefusesWhatDoesNotFit) {
  Array x({3, 5}, DType::f32), y({5, 3}, DType::f32), half({3, 5}, DType::f16);
  expect_error([&] { run_kernel(dropout, x.view(), 1.0, 1, 2, x.view()); },
               "dropout: p is 1, should be in [0, 1)");
  expect_error([&] { run_kernel(dropout, x.view(), -0.1, 1, 2, x.view()); }, "dropout: p is -0.1");
  expect_error([&] { run_kernel(dropout, x.view(), 0.1, 1, 2, y.view()); }, "shapes differ");
  expect_error([&] { run_kernel(dropout, x.view(), 0.1, 1, 2, half.view()); }, "dtypes differ");
}

}  // namespace
}  // namespace reprise::kernels
