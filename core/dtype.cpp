// Element type names, sizes, promotion and the f16 conversions.
#include "reprise/core/dtype.h"

#include <algorithm>
#include <ostream>

namespace reprise {

size_t size_of(DType dtype) {
  return dispatch_all(dtype, []<class T>() { return sizeof(T); });
}

std::string_view name_of(DType dtype) {
  constexpr std::string_view names[] = {"f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool"};
  return names[size_t(dtype)];
}

bool is_floating(DType dtype) { return dtype <= DType::f16; }

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) && is_floating(b)) {
    bool halves = a >= DType::bf16 && b >= DType::bf16;  // bf16 with f16: neither holds the other
    return halves ? DType::f32 : std::min(a, b);
  }
  return std::min(a, b);  // the enumerators run from the widest to the narrowest
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

Float16::Float16(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint32_t sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude >= 0x47800000u) {  // 2^16 and above, inf, NaN
    bits = uint16_t(sign | (magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u));
  } else if (magnitude < 0x38800000u) {  // below 2^-14: subnormal, let the f32 adder round
    float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = uint16_t(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  } else {
    uint32_t rebased = magnitude - 0x38000000u;
    bits = uint16_t(sign | ((rebased + 0xfffu + ((rebased >> 13) & 1)) >> 13));
  }
}

Float16::operator float() const {
  uint32_t sign = uint32_t(bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, fraction = bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    float value = float(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (fraction << 13));
}

}  // namespace reprise
