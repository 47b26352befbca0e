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
