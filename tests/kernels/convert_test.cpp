// The kernels' own f16 conversions against Float16's, bit for bit. The rest of `convert` is tested through
// `copy`.
#include "reprise/kernels/convert.h"

#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace reprise::kernels
