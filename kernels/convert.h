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

// Float16's conversions without branches, of one number (Words = uint32_t, Floats = float) or a vector of them, and so
// that loops over them become vector code; the same bits as Float16's own, NaN included.
template <class Floats, class Words>
[[gnu::always_inline]] inline Floats f32_from_f16(Words half) {
  const Words magnitude = (half & 0x7fffu) << 13, sign = (half & 0x8000u) << 16, none{};
  // Rebases the exponent, of subnormals too.
  const Floats value = __builtin_bit_cast(Floats, magnitude) * 0x1p112f;
  const Words special = magnitude >= 0x0f800000u ? none + 0x7f800000u : none;
  return __builtin_bit_cast(Floats, __builtin_bit_cast(Words, value) | special | sign);
}
template <class Words, class Floats>
[[gnu::always_inline]] inline Words f16_from_f32(Floats value) {
  const Words bits = __builtin_bit_cast(Words, value), sign = (bits >> 16) & 0x8000u, none{};
  const Words magnitude = bits & 0x7fffffffu, rebased = magnitude - 0x38000000u;
  const Words normal = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
  const Floats shifted = __builtin_bit_cast(Floats, magnitude) + 0.5f;
  const Words subnormal = __builtin_bit_cast(Words, shifted) - 0x3f000000u;
  const Words special = magnitude > 0x7f800000u ? none + 0x7e00u : none + 0x7c00u;
  const Words finite = magnitude < 0x38800000u ? subnormal : normal;
  return sign | (magnitude >= 0x47800000u ? special : finite);
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
    return To(detail::f32_from_f16<float>(uint32_t(x.bits)));
  } else if constexpr (std::is_same_v<To, Float16> && std::is_floating_point_v<From>) {
    To out;
    out.bits = uint16_t(detail::f16_from_f32<uint32_t>(float(x)));
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
