// exp, tanh, erf and sigmoid on vectors of float, for the bodies of `simd::run`; a few ulp from the exact
// value. The same names take a float (the same formulas, one lane), and a double or a vector of double
// (std::, lane by lane: gradient checks in f64 need all the digits).
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "reprise/kernels/cpu/simd.h"

namespace reprise::kernels::simd {

namespace detail {
template <class V>
struct LaneOf {
  using type = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
};
template <std::floating_point T>
struct LaneOf<T> {
  using type = T;
};
}  // namespace detail

/// The element type of a vector; a scalar is its own lane.
template <class V>
using Lane = typename detail::LaneOf<V>::type;

template <class V>
concept FloatVector = !std::is_arithmetic_v<V> && std::same_as<Lane<V>, float>;
template <class V>
concept DoubleVector = !std::is_arithmetic_v<V> && std::same_as<Lane<V>, double>;

namespace detail {

/// x = n ln 2 + r with |r| <= ln 2 / 2, for |x| < 2^22 ln 2. ln 2 is subtracted in two parts, so that r is
/// exact.
template <FloatVector V>
[[gnu::always_inline]] inline V reduce_by_ln2(V x, decltype(V{} < V{}) & n) {
  constexpr float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer, kept in the low bits
  V rounded = x * 1.44269504f + shift;
  n = reinterpret_cast<decltype(V{} < V{})>(rounded) - 0x4b400000;
  V whole = rounded - shift;
  return (x - whole * 0.693145752f) - whole * 1.42860677e-6f;
}

/// e^r - 1 for |r| <= ln 2 / 2: r + r^2 P(r), P fitted by weighted least squares to 3e-9.
template <FloatVector V>
[[gnu::always_inline]] inline V expm1_near_zero(V r) {
  V p = ((((0.001381413624f * r + 0.008368918608f) * r + 0.04166840832f) * r + 0.1666651895f) * r) +
        0.4999999333f;
  return r + r * r * p;
}

/// 2^n for -126 <= n <= 127.
template <class V, class I>
[[gnu::always_inline]] inline V power_of_two(I n) {
  return reinterpret_cast<V>((n + 127) << 23);
}

/// e^x - 1 for -87 <= x <= 87, without cancellation near 0. NaN stays NaN.
template <FloatVector V>
[[gnu::always_inline]] inline V expm1_bounded(V x) {
  decltype(x < x) n;
  V r = reduce_by_ln2(x, n);
  V scale = power_of_two<V>(n);
  return expm1_near_zero(r) * scale + (scale - 1.0f);
}

template <class V>
[[gnu::always_inline]] inline V magnitude(V x) {
  return reinterpret_cast<V>(reinterpret_cast<decltype(x < x)>(x) & 0x7fffffff);
}

/// `size` with the sign of x; size >= 0.
template <class V>
[[gnu::always_inline]] inline V with_sign_of(V size, V x) {
  using I = decltype(x < x);
  return reinterpret_cast<V>(reinterpret_cast<I>(size) | (reinterpret_cast<I>(x) & int32_t(0x80000000)));
}

template <class V, class Function>
[[gnu::always_inline]] inline V lane_by_lane(V x, Function function) {
  constexpr int lanes = sizeof(V) / sizeof(Lane<V>);
  for (int i = 0; i < lanes; ++i) x[i] = function(x[i]);
  return x;
}

}  // namespace detail

/// e^x over the whole range: 0 below -104, infinity above 88.73, subnormals between.
template <FloatVector V>
[[gnu::always_inline]] inline V exp(V x) {
  x = x > 89.0f ? V{} + 89.0f : x;
  x = x < -104.0f ? V{} - 104.0f : x;
  decltype(x < x) n;
  V r = detail::reduce_by_ln2(x, n);
  auto half = n >> 1;  // 2^n in two factors: n reaches -150 and 128, beyond what one exponent field holds
  V power = detail::expm1_near_zero(r) + 1.0f;
  return power * detail::power_of_two<V>(half) * detail::power_of_two<V>(n - half);
}

/// e^x for x <= 0, with 0 below -87: no result is subnormal, since computing those costs as much as dozens of
/// others. NaN stays NaN; a larger x gives no defined value.
template <FloatVector V>
[[gnu::always_inline]] inline V exp_of_nonpositive(V x) {
  auto vanishes = x < -87.0f;
  x = x < -87.0f ? V{} - 87.0f : x;
  decltype(x < x) n;
  V r = detail::reduce_by_ln2(x, n);
  V power = (detail::expm1_near_zero(r) + 1.0f) * detail::power_of_two<V>(n);
  return reinterpret_cast<V>(reinterpret_cast<decltype(n)>(power) & ~vanishes);
}

/// tanh |x| = t / (t + 2) with t = e^(2|x|) - 1; from 10 on it is 1 in f32.
template <FloatVector V>
[[gnu::always_inline]] inline V tanh(V x) {
  V size = detail::magnitude(x);
  size = size > 10.0f ? V{} + 10.0f : size;
  V t = detail::expm1_bounded(size + size);
  return detail::with_sign_of(t / (t + 2.0f), x);
}

/// erf |x| = 1 - e^(-|x| P(|x|)), where x P(x) = -log(erfc(x)), fitted on [0, 3.95] to 4e-9 of erf; beyond it
/// is 1.
template <FloatVector V>
[[gnu::always_inline]] inline V erf(V x) {
  V size = detail::magnitude(x);
  size = size > 3.95f ? V{} + 3.95f : size;
  V p = -9.259755873e-6f * size + 0.0001176703455f;
  p = p * size - 0.000632932596f;
  p = p * size + 0.001667186761f;
  p = p * size - 0.0001605378239f;
  p = p * size - 0.01915299848f;
  p = p * size + 0.1027778168f;
  p = p * size + 0.6366193828f;
  p = p * size + 1.128379172f;
  return detail::with_sign_of(-detail::expm1_bounded(-size * p), x);
}

/// 1 / (1 + e^-x). From -88.4 down, where that is below 4.2e-39, e^-x is infinite here and the result 0.
template <FloatVector V>
[[gnu::always_inline]] inline V sigmoid(V x) {
  x = x < -89.0f ? V{} - 89.0f : x;
  x = x > 87.0f ? V{} + 87.0f : x;
  decltype(x < x) n;
  V r = detail::reduce_by_ln2(-x, n);
  return 1.0f / ((detail::expm1_near_zero(r) + 1.0f) * detail::power_of_two<V>(n) + 1.0f);
}

template <DoubleVector V>
[[gnu::always_inline]] inline V exp(V x) {
  return detail::lane_by_lane(x, [](double lane) { return std::exp(lane); });
}
template <DoubleVector V>
[[gnu::always_inline]] inline V exp_of_nonpositive(V x) {
  return exp(x);
}
template <DoubleVector V>
[[gnu::always_inline]] inline V tanh(V x) {
  return detail::lane_by_lane(x, [](double lane) { return std::tanh(lane); });
}
template <DoubleVector V>
[[gnu::always_inline]] inline V erf(V x) {
  return detail::lane_by_lane(x, [](double lane) { return std::erf(lane); });
}
template <DoubleVector V>
[[gnu::always_inline]] inline V sigmoid(V x) {
  return 1.0 / (1.0 + exp(-x));
}

inline float exp(float x) { return exp(Vector<float, 4>{x})[0]; }
inline float tanh(float x) { return tanh(Vector<float, 4>{x})[0]; }
inline float erf(float x) { return erf(Vector<float, 4>{x})[0]; }
inline float sigmoid(float x) { return sigmoid(Vector<float, 4>{x})[0]; }
inline double exp(double x) { return std::exp(x); }
inline double tanh(double x) { return std::tanh(x); }
inline double erf(double x) { return std::erf(x); }
inline double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

}  // namespace reprise::kernels::simd
