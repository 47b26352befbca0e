// Conversions between element types, and the type each is computed in.
#pragma once

#include <concepts>
#include <limits>
#include <type_traits>

#include "reprise/core/dtype.h"

namespace reprise::kernels {

/// The type arithmetic on T is done in: f64 for f64, f32 for the other floating types, i64 for integers and
/// bool.
template <class T>
using ComputeType = std::conditional_t<std::is_integral_v<T>, int64_t, Accumulator<T>>;

namespace detail {

// Float16's conversions without branches, so that loops over them become vector code; the same bits, NaN
// included.
inline float f32_from_f16(uint16_t bits) {
  uint32_t magnitude = uint32_t(bits & 0x7fffu) << 13, sign = uint32_t(bits & 0x8000u) << 16;
  float value = std::bit_cast<float>(magnitude) * 0x1p112f;  // rebases the exponent, subnormals too
  uint32_t special = std::bit_cast<uint32_t>(value) | (magnitude >= 0x0f800000u ? 0x7f800000u : 0u);
  return std::bit_cast<float>(special | sign);
}
inline uint16_t f16_from_f32(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value), sign = (bits >> 16) & 0x8000u,
           magnitude = bits & 0x7fffffffu;
  uint32_t rebased = magnitude - 0x38000000u;
  uint32_t normal = (rebased + 0xfffu + ((rebased >> 13) & 1)) >> 13;
  uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t special = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
  return uint16_t(sign | (magnitude >= 0x47800000u ? special : finite));
}

}  // namespace detail

/// Casts one element. To bool: x != 0. Floating to integer truncates; what does not fit saturates and NaN
/// gives 0, so that no input is undefined. Integer to integer keeps the low bits.
template <class To, class From>
inline To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    using C = ComputeType<From>;
    constexpr C lowest = C(std::numeric_limits<To>::min());
    constexpr C above = C(std::numeric_limits<To>::max() / 2 + 1) * 2;  // max + 1, exact in f32 and f64
    C value = x;
    if (!(value > lowest)) return value <= lowest ? std::numeric_limits<To>::min() : To(0);
    return value < above ? To(value) : std::numeric_limits<To>::max();
  } else if constexpr (std::is_same_v<From, Float16> && std::is_floating_point_v<To>) {
    return To(detail::f32_from_f16(x.bits));
  } else if constexpr (std::is_same_v<To, Float16> && std::is_floating_point_v<From>) {
    To out;
    out.bits = detail::f16_from_f32(float(x));
    return out;
  } else if constexpr (std::is_floating_point_v<To> || std::is_integral_v<To>) {
    return static_cast<To>(x);
  } else {
    return To(float(x));  // the half types are made from f32
  }
}

/// Calls `body.operator()<C>()` with the type that `dtype` is computed in.
template <class Body>
decltype(auto) dispatch_compute(DType dtype, Body&& body) {
  if (dtype == DType::f64) return body.template operator()<double>();
  if (is_floating(dtype)) return body.template operator()<float>();
  return body.template operator()<int64_t>();
}

}  // namespace reprise::kernels
