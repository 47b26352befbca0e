// Element types: the half types over all their bit patterns against definitions written in f64, and
// promotion.
#include "reprise/core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace reprise {
namespace {

/// The value of a binary floating pattern, straight from IEEE 754: sign, exponent field, fraction field.
double decode(uint32_t bits, int exponent_bits, int fraction_bits) {
  int exponent = int(bits >> fraction_bits) & ((1 << exponent_bits) - 1),
      bias = (1 << (exponent_bits - 1)) - 1;
  double fraction = double(bits & ((1u << fraction_bits) - 1)) * std::ldexp(1.0, -fraction_bits);
  double sign = bits >> (exponent_bits + fraction_bits) & 1 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  return sign * (exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias));
}

/// A half type for the tests below: its layout, and its largest finite pattern.
template <class T>
struct Format;
template <>
struct Format<BFloat16> {
  static constexpr int exponent_bits = 8, fraction_bits = 7;
};
template <>
struct Format<Float16> {
  static constexpr int exponent_bits = 5, fraction_bits = 10;
};

template <class T>
double decode(uint32_t bits) {
  return decode(bits, Format<T>::exponent_bits, Format<T>::fraction_bits);
}
template <class T>
constexpr uint32_t infinity_bits = ((1u << Format<T>::exponent_bits) - 1) << Format<T>::fraction_bits;

template <class T>
T from_bits(uint32_t bits) {
  T value;
  value.bits = uint16_t(bits);
  return value;
}

template <class T>
class HalfType : public ::testing::Test {};
using HalfTypes = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(HalfType, HalfTypes);

TYPED_TEST(HalfType, EveryPatternDecodesAsIeeeSays) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    double got = float(from_bits<TypeParam>(bits)), want = decode<TypeParam>(bits);
    ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)))
        << std::hex << bits << ": " << got << ", " << want;
    ASSERT_EQ(std::signbit(got), bits >= 0x8000) << std::hex << bits;
  }
}

TYPED_TEST(HalfType, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    TypeParam value = from_bits<TypeParam>(bits), back = TypeParam(float(value));
    if (std::isnan(float(value)))
      ASSERT_TRUE(std::isnan(float(back))) << std::hex << bits;  // a signalling NaN may become quiet
    else
      ASSERT_EQ(back.bits, bits) << std::hex << bits;
  }
}

TYPED_TEST(HalfType, RoundsToNearestEvenBetweenAllNeighbours) {
  // Each gap between neighbours a < b: the middle goes to the even one, the f32 just below to a, just above
  // to b. Above the largest finite number the gap's upper end is the power of two that the format no longer
  // has: infinity.
  for (uint32_t bits = 0; bits < infinity_bits<TypeParam>; ++bits) {
    uint32_t above = bits + 1;
    double a = decode<TypeParam>(bits);
    double b =
        above < infinity_bits<TypeParam> ? decode<TypeParam>(above) : 2 * a - decode<TypeParam>(bits - 1);
    float middle = float((a + b) / 2);  // exact: f32 has more bits than either format
    ASSERT_EQ(double(middle), (a + b) / 2);
    for (float sign : {1.0f, -1.0f}) {
      uint32_t sign_bit = sign < 0 ? 0x8000 : 0;
      uint32_t even = bits % 2 == 0 ? bits : above;
      float just_below = std::nextafter(middle, 0.0f), just_above = std::nextafter(middle, INFINITY);
      ASSERT_EQ(TypeParam(sign * middle).bits, even | sign_bit) << "middle above " << std::hex << bits;
      ASSERT_EQ(TypeParam(sign * just_below).bits, bits | sign_bit)
          << "below the middle above " << std::hex << bits;
      ASSERT_EQ(TypeParam(sign * just_above).bits, above | sign_bit)
          << "above the middle above " << std::hex << bits;
    }
  }
}

TYPED_TEST(HalfType, KeepsInfinityAndNan) {
  EXPECT_EQ(TypeParam(INFINITY).bits, infinity_bits<TypeParam>);
  EXPECT_EQ(TypeParam(-INFINITY).bits, infinity_bits<TypeParam> | 0x8000);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, infinity_bits<TypeParam>);
  for (uint32_t pattern : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffffffffu})
    EXPECT_TRUE(std::isnan(float(TypeParam(std::bit_cast<float>(pattern))))) << std::hex << pattern;
  EXPECT_EQ(TypeParam(-0.0f).bits, 0x8000);
}

TEST(DType, HasNamesAndSizes) {
  struct Row {
    DType dtype;
    const char* name;
    size_t size;
    bool floating;
  };
  for (const Row& row : {Row{DType::f64, "f64", 8, true},
                         {DType::f32, "f32", 4, true},
                         {DType::bf16, "bf16", 2, true},
                         {DType::f16, "f16", 2, true},
                         {DType::i64, "i64", 8, false},
                         {DType::i32, "i32", 4, false},
                         {DType::u8, "u8", 1, false},
                         {DType::boolean, "bool", 1, false}}) {
    EXPECT_EQ(name_of(row.dtype), row.name);
    EXPECT_EQ(size_of(row.dtype), row.size) << row.name;
    EXPECT_EQ(is_floating(row.dtype), row.floating) << row.name;
  }
}

TEST(DType, PromotesByTheTable) {
  using enum DType;
  const std::vector<DType> order = {f64, f32, bf16, f16, i64, i32, u8, boolean};
  const std::vector<std::vector<DType>> table = {
      {f64, f64, f64, f64, f64, f64, f64, f64},       //
      {f64, f32, f32, f32, f32, f32, f32, f32},       //
      {f64, f32, bf16, f32, bf16, bf16, bf16, bf16},  //
      {f64, f32, f32, f16, f16, f16, f16, f16},       //
      {f64, f32, bf16, f16, i64, i64, i64, i64},      //
      {f64, f32, bf16, f16, i64, i32, i32, i32},      //
      {f64, f32, bf16, f16, i64, i32, u8, u8},        //
      {f64, f32, bf16, f16, i64, i32, u8, boolean},   //
  };
  for (size_t a = 0; a < order.size(); ++a)
    for (size_t b = 0; b < order.size(); ++b)
      EXPECT_EQ(promote(order[a], order[b]), table[a][b]) << order[a] << " with " << order[b];
}

TEST(DType, DispatchGivesTheTypeAndRefusesIntegersWhereFloatingIsNeeded) {
  EXPECT_EQ(dispatch_all(DType::boolean, []<class T>() { return std::is_same_v<T, bool>; }), true);
  EXPECT_EQ(dispatch_floating(DType::bf16, "op", []<class T>() { return dtype_of<T>; }), DType::bf16);
  try {
    dispatch_floating(DType::i32, "softmax", []<class T>() {});
    FAIL() << "no Error";
  } catch (const Error& error) { EXPECT_STREQ(error.what(), "softmax: needs a floating dtype, got i32"); }
}

}  // namespace
}  // namespace reprise
