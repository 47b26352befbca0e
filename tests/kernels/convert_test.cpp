// The kernels' own conversions of half types against those of Float16 and BFloat16, bit for bit. The rest of `convert` is
// tested through `copy`.
#include "reprise/kernels/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reprise/kernels/convert_row.h"

namespace reprise::kernels {
namespace {

TEST(Convert, ReadsEveryF16PatternAsFloat16Does) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    Float16 half;
    half.bits = uint16_t(bits);
    ASSERT_EQ(std::bit_cast<uint32_t>(convert<float>(half)), std::bit_cast<uint32_t>(float(half)))
        << std::hex << bits;
  }
}

TEST(Convert, WritesF16AsFloat16DoesAroundEveryPatternAndMiddle) {
  // Every number that has 12 significant bits or fewer, and its neighbours in f32, over all exponents and
  // both signs.
  for (uint32_t upper = 0; upper < 1u << 20; ++upper)
    for (uint32_t lower : {0u, 1u, 0xfffu}) {
      float value = std::bit_cast<float>(upper << 12 | lower);
      ASSERT_EQ(convert<Float16>(value).bits, Float16(value).bits) << std::hex << upper << " " << lower;
    }
}

template <class T>
class ConvertRow : public testing::Test {};
using HalfTypes = testing::Types<Float16, BFloat16>;
TYPED_TEST_SUITE(ConvertRow, HalfTypes);

TYPED_TEST(ConvertRow, WidensEveryPattern) {
  std::vector<TypeParam> from(65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) from[bits].bits = uint16_t(bits);
  std::vector<float> to(65536);
  convert_row(from.data(), to.data(), 65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float want = float(from[bits]);
    if (std::isnan(want))  // a signalling one may become quiet
      ASSERT_TRUE(std::isnan(to[bits]) && std::signbit(to[bits]) == std::signbit(want)) << std::hex << bits;
    else
      ASSERT_EQ(std::bit_cast<uint32_t>(to[bits]), std::bit_cast<uint32_t>(want)) << std::hex << bits;
  }
}

TYPED_TEST(ConvertRow, RoundsAsOneNumberIsRounded) {
  std::vector<float> from;
  for (uint32_t upper = 0; upper < 1u << 16; upper += 3)
    for (uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      from.push_back(std::bit_cast<float>(upper << 16 | lower));
  std::vector<TypeParam> to(from.size());
  convert_row(from.data(), to.data(), int64_t(from.size()));
  for (size_t i = 0; i < from.size(); ++i)
    ASSERT_EQ(to[i].bits, TypeParam(from[i]).bits) << std::hex << std::bit_cast<uint32_t>(from[i]);
}

TYPED_TEST(ConvertRow, LeavesWhatIsBesideIt) {
  for (int64_t n = 0; n < 40; ++n) {
    const std::vector<float> numbers(size_t(n), 1.5f);
    std::vector<TypeParam> halves(size_t(n + 1), TypeParam(7.0f));
    convert_row(numbers.data(), halves.data(), n);
    std::vector<float> back(size_t(n + 1), 7.0f);
    convert_row(halves.data(), back.data(), n);
    for (int64_t i = 0; i <= n; ++i) {
      ASSERT_EQ(float(halves[size_t(i)]), i < n ? 1.5f : 7.0f) << i << " of " << n;
      ASSERT_EQ(back[size_t(i)], i < n ? 1.5f : 7.0f) << i << " of " << n;
    }
  }
}

}  // namespace
}  // namespace reprise::kernels
