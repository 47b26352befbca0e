// The model of AVX512-BF16's instruction for pairs against sums in f64, and against the instruction where this CPU has it.
#include "reprise/kernels/cpu/bf16_pairs.h"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <random>

namespace reprise::kernels {
namespace {

using bf16_pairs::lanes;

struct Operands {
  std::array<uint32_t, lanes> x, y;
  std::array<float, lanes> sum;
};

/// Any bits, or numbers of up to `octaves` powers of two about 1; of many octaves, one number in 16 is subnormal.
Operands random_operands(std::mt19937& random, int octaves) {
  auto number = [&] {
    const uint32_t any = uint32_t(random());
    if (octaves > 254) return any;
    const uint32_t exponent = 127 - uint32_t(octaves / 2) + uint32_t(random()) % uint32_t(octaves);
    return (any & 0x807fffffu) | (octaves < 16 || random() % 16 ? exponent << 23 : 0);
  };
  Operands v;
  for (int i = 0; i < lanes; ++i) {
    v.x[size_t(i)] = number() >> 16 | (number() & 0xffff0000u);
    v.y[size_t(i)] = number() >> 16 | (number() & 0xffff0000u);
    v.sum[size_t(i)] = std::bit_cast<float>(number());
  }
  return v;
}

double low(uint32_t word) { return std::bit_cast<float>(word << 16); }
double high(uint32_t word) { return std::bit_cast<float>(word & 0xffff0000u); }
uint32_t pair(float first, float second) {
  return std::bit_cast<uint32_t>(first) >> 16 | (std::bit_cast<uint32_t>(second) & 0xffff0000u);
}

/// The whole vector at once, by the model or the instruction.
template <class Step>
[[gnu::always_inline]] inline std::array<float, lanes> add(const Operands& v) {
  std::array<float, lanes> out;
  simd::store(out.data(),
              Step::add(simd::load<bf16_pairs::Sums>(v.sum.data()), simd::load<bf16_pairs::Words>(v.x.data()),
                        simd::load<bf16_pairs::Words>(v.y.data())));
  return out;
}

TEST(Bf16Pairs, ModelIsTheSumOfTwoProducts) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    const Operands v = random_operands(random, 8);
    const std::array<float, lanes> got = add<bf16_pairs::Model>(v);
    for (size_t i = 0; i < lanes; ++i) {
      const double first = low(v.x[i]) * low(v.y[i]), second = high(v.x[i]) * high(v.y[i]);
      const double size = std::abs(first) + std::abs(second) + std::abs(double(v.sum[i]));
      EXPECT_NEAR(got[i], double(v.sum[i]) + first + second, size * 0x1p-23);
    }
  }
}

TEST(Bf16Pairs, ModelAddsTheSecondProductFirst) {
  // 2^24 + 1 is 2^24; 2^24 + 1 + 1 is so too, one product after the other.
  EXPECT_EQ(bf16_pairs::Model::add_one(0, pair(0x1p12f, 1), pair(0x1p12f, 1)), 0x1p24f);
  EXPECT_EQ(bf16_pairs::Model::add_one(0x1p24f, pair(-0x1p12f, 1), pair(0x1p12f, 1)), 0);
  EXPECT_EQ(bf16_pairs::Model::add_one(0x1p24f, pair(1, -0x1p12f), pair(1, 0x1p12f)), 1);
}

TEST(Bf16Pairs, ModelTakesSubnormalNumbersAsZeros) {
  EXPECT_EQ(bf16_pairs::Model::add_one(0, pair(0x1p-127f, 0), pair(0x1p20f, 0)), 0);
  EXPECT_EQ(bf16_pairs::Model::add_one(0, pair(0, 0x1p-70f), pair(0, 0x1p-70f)), 0);
  EXPECT_EQ(bf16_pairs::Model::add_one(0x1p-130f, 0, 0), 0);
  EXPECT_EQ(bf16_pairs::Model::add_one(0x1p-126f, 0, 0), 0x1p-126f);
}

// In a process of its own, which Linux lends no tiles, as its stack for signals is too small to keep them.
TEST(Bf16PairsDeathTest, AreTakenWhereTheyAreFasterThanVectors) {
  __builtin_cpu_init();
  if (std::getenv("REPRISE_ISA") || !__builtin_cpu_supports("avx512bf16"))
    GTEST_SKIP() << "this CPU has no AVX512-BF16, or REPRISE_ISA chose";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto choose_without_tiles = [] {
    static char memory[8192];
    stack_t small{};
    small.ss_sp = memory, small.ss_size = sizeof(memory);
    sigaltstack(&small, nullptr);
    const bool faster = simd::isa() == simd::Isa::avx512 && !__builtin_cpu_is("intel");
    const bool taken = simd::bf16_pairs() == simd::Bf16Pairs::avx512bf16;
    std::exit(simd::tiles() == simd::Tiles::none && taken == faster ? 0 : 1);
  };
  EXPECT_EXIT(choose_without_tiles(), testing::ExitedWithCode(0), "");
}

TEST(Bf16Pairs, ModelHasTheBitsOfTheInstruction) {
  if (simd::bf16_pairs() != simd::Bf16Pairs::avx512bf16)
    GTEST_SKIP() << "this CPU has no AVX512-BF16, or REPRISE_ISA chose another";
  std::mt19937 random(2);
  for (int octaves : {4, 40, 120, 250, 255})
    for (int round = 0; round < 2000; ++round) {
      const Operands v = random_operands(random, octaves);
      const std::array<float, lanes> want = add<bf16_pairs::Model>(v);
      std::array<float, lanes> got{};
      simd::run([&]<int W>() {
        if constexpr (W == lanes) got = add<bf16_pairs::Instruction>(v);
      });
      for (size_t i = 0; i < lanes; ++i)
        ASSERT_TRUE(std::bit_cast<uint32_t>(got[i]) == std::bit_cast<uint32_t>(want[i]) ||
                    (std::isnan(got[i]) && std::isnan(want[i])))
            << got[i] << ", should be " << want[i] << " within " << octaves << " octaves";
    }
}

}  // namespace
}  // namespace reprise::kernels
