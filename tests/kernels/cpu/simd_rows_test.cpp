// Rows of bf16 and f16 as vectors: the bits of the conversions of one number.
#include "reprise/kernels/cpu/simd_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

namespace reprise::kernels {
namespace {

/// All 65,536 upper halves, each with the same lower half.
std::vector<float> all_numbers(uint32_t lower_half) {
  std::vector<float> numbers(1 << 16);
  for (uint32_t i = 0; i < numbers.size(); ++i) numbers[i] = std::bit_cast<float>(i << 16 | lower_half);
  return numbers;
}

TEST(SimdRows, RoundF32ToBf16AsOneNumberIs) {
  for (uint32_t lower_half : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
    const std::vector<float> numbers = all_numbers(lower_half);
    std::vector<BFloat16> got(numbers.size());
    simd::run([&]<int W>() {
      for (size_t i = 0; i < numbers.size(); i += W)
        simd::store_row<float, W>(got.data() + i, simd::load<simd::Vector<float, W>>(numbers.data() + i), W);
    });
    for (size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(got[i].bits, BFloat16(numbers[i]).bits) << i << ", lower half " << lower_half;
  }
}

TEST(SimdRows, WidenEveryBf16) {
  const std::vector<float> numbers = all_numbers(0);
  std::vector<BFloat16> halves(numbers.size());
  for (size_t i = 0; i < halves.size(); ++i) halves[i].bits = uint16_t(i);
  std::vector<float> got(numbers.size());
  simd::run([&]<int W>() {
    for (size_t i = 0; i < numbers.size(); i += W)
      simd::store(got.data() + i, simd::load_row<float, W>(halves.data() + i, W));
  });
  for (size_t i = 0; i < numbers.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(numbers[i])) << i;
}

TEST(SimdRows, RoundF32ToF16AsOneNumberIs) {
  for (uint32_t lower_half :
       {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x2000u, 0x3000u, 0x7fffu, 0x9000u, 0xffffu}) {
    const std::vector<float> numbers = all_numbers(lower_half);
    std::vector<Float16> got(numbers.size());
    simd::run([&]<int W>() {
      for (size_t i = 0; i < numbers.size(); i += W)
        simd::store_row<float, W>(got.data() + i, simd::load<simd::Vector<float, W>>(numbers.data() + i), W);
    });
    for (size_t i = 0; i < numbers.size(); ++i)
      ASSERT_EQ(got[i].bits, Float16(numbers[i]).bits) << i << ", lower half " << lower_half;
  }
}

TEST(SimdRows, WidenEveryF16) {
  std::vector<Float16> halves(1 << 16);
  for (size_t i = 0; i < halves.size(); ++i) halves[i].bits = uint16_t(i);
  std::vector<float> got(halves.size());
  simd::run([&]<int W>() {
    for (size_t i = 0; i < halves.size(); i += W)
      simd::store(got.data() + i, simd::load_row<float, W>(halves.data() + i, W));
  });
  for (size_t i = 0; i < halves.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(got[i]), want = std::bit_cast<uint32_t>(float(halves[i]));
    const bool signals = std::isnan(got[i]) && (want & 0x400000u) == 0;  // such a NaN may become quiet
    ASSERT_EQ(signals ? bits & ~0x400000u : bits, want) << i;
  }
}

}  // namespace
}  // namespace reprise::kernels
