// The model of AMX's tiles against sums in f64, and against the instructions where this CPU has them.
#include "reprise/kernels/cpu/amx.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "reprise/core/dtype.h"
#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels {
namespace {

/// C += A B, 16 x 16 sums over 32 numbers.
struct Product {
  alignas(64) BFloat16 a[16][32], b[16][32];  ///< b: two numbers along the sum for each of 16 columns
  alignas(64) float c[16][16];

  template <class Machine>
  void run(Machine& machine, float (&result)[16][16]) const {
    machine.template load<2>(c, 64);
    machine.template load<5>(a, 64);
    machine.template load<7>(b, 64);
    machine.template dot_bf16<2, 5, 7>();
    machine.template store<2>(result, 64);
  }
};

/// Any bits, or numbers of up to `octaves` powers of two about 1.
Product random_product(uint32_t seed, int octaves) {
  std::mt19937 random(seed);
  Product x;
  auto bits = [&](uint32_t sign_and_digits) {
    const uint32_t any = uint32_t(random());
    const uint32_t exponent = 127 - uint32_t(octaves / 2) + uint32_t(random()) % uint32_t(octaves);
    return octaves > 254 ? any : (any & sign_and_digits) | exponent << 23;
  };
  for (auto* operand : {&x.a, &x.b})
    for (auto& row : *operand)
      for (BFloat16& value : row) value.bits = uint16_t(bits(0x807fffffu) >> 16);
  for (auto& row : x.c)
    for (float& value : row) value = std::bit_cast<float>(bits(0x807fffffu));
  return x;
}

TEST(AmxModel, IsTheSumOfTheProducts) {
  const Product x = random_product(1, 8);
  amx::Model model;
  float got[16][16];
  x.run(model, got);
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 16; ++n) {
      double want = x.c[m][n], size = std::abs(want);
      for (int k = 0; k < 32; ++k) {
        const double product = double(float(x.a[m][k])) * double(float(x.b[k / 2][2 * n + k % 2]));
        want += product, size += std::abs(product);
      }
      EXPECT_NEAR(got[m][n], want, size * 18 * 0x1p-24) << m << ", " << n;  // 16 additions and two more
    }
}

TEST(AmxModel, TakesSubnormalNumbersAsZeros) {
  Product x{};
  x.a[3][4] = BFloat16(0x1p-127f), x.b[2][2 * 5] = BFloat16(0x1p20f);      // a subnormal factor
  x.a[6][7] = BFloat16(0x1p-70f), x.b[3][2 * 8 + 1] = BFloat16(0x1p-70f);  // a product of 2^-140
  x.c[9][9] = 0x1p-130f;
  x.c[1][1] = 0x1p-126f;
  amx::Model model;
  float got[16][16];
  x.run(model, got);
  EXPECT_EQ(got[3][5], 0);
  EXPECT_EQ(got[6][8], 0);
  EXPECT_EQ(got[9][9], 0);
  EXPECT_EQ(got[1][1], 0x1p-126f);
}

TEST(AmxModel, HasTheBitsOfTheInstructions) {
  if (simd::tiles() != simd::Tiles::amx) GTEST_SKIP() << "this CPU has no AMX, or REPRISE_ISA chose another";
  const amx::Lease lease;
  amx::Instructions instructions;
  amx::Model model;
  for (int octaves : {4, 40, 200, 255})
    for (uint32_t seed = 0; seed < 100; ++seed) {
      const Product x = random_product(seed, octaves);
      float got[16][16], want[16][16];
      x.run(model, got);
      x.run(instructions, want);
      for (int i = 0; i < 256; ++i) {
        const float a = got[i / 16][i % 16], b = want[i / 16][i % 16];
        ASSERT_TRUE(std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) ||
                    (std::isnan(a) && std::isnan(b)))
            << a << " for " << b << " at " << i << ", " << octaves << " octaves, seed " << seed;
      }
    }
}

}  // namespace
}  // namespace reprise::kernels
