// Arithmetic of __half and __nv_bfloat16 that NVIDIA's headers have for devices only: exact, then rounded
// once.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <type_traits>

namespace reprise::simt {

template <class T>
concept Half = std::is_same_v<T, __half> || std::is_same_v<T, __nv_bfloat16>;
template <class T>
concept Half2 = std::is_same_v<T, __half2> || std::is_same_v<T, __nv_bfloat162>;

template <Half T>
T round_to(double value) {
  if constexpr (std::is_same_v<T, __half>)
    return __double2half(value);
  else
    return __double2bfloat16(value);
}

template <Half T, class F>
T map_half(T x, F&& f) {
  return round_to<T>(f(double(float(x))));
}

template <Half2 T, class F>
T map_both(T x, F&& f) {
  T y;
  y.x = map_half(x.x, f);
  y.y = map_half(x.y, f);
  return y;
}

}  // namespace reprise::simt

template <reprise::simt::Half T>
T __hfma(T a, T b, T c) {
  return reprise::simt::round_to<T>(std::fma(double(float(a)), double(float(b)), double(float(c))));
}
template <reprise::simt::Half2 T>
T __hfma2(T a, T b, T c) {
  T result;
  result.x = __hfma(a.x, b.x, c.x);
  result.y = __hfma(a.y, b.y, c.y);
  return result;
}

template <reprise::simt::Half T>
T hexp(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::exp(v); });
}
template <reprise::simt::Half2 T>
T h2exp(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::exp(v); });
}
template <reprise::simt::Half T>
T hexp2(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::exp2(v); });
}
template <reprise::simt::Half2 T>
T h2exp2(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::exp2(v); });
}
template <reprise::simt::Half T>
T hlog(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::log(v); });
}
template <reprise::simt::Half2 T>
T h2log(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::log(v); });
}
template <reprise::simt::Half T>
T hlog2(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::log2(v); });
}
template <reprise::simt::Half2 T>
T h2log2(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::log2(v); });
}
template <reprise::simt::Half T>
T hsqrt(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::sqrt(v); });
}
template <reprise::simt::Half2 T>
T h2sqrt(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::sqrt(v); });
}
template <reprise::simt::Half T>
T hrsqrt(T x) {
  return reprise::simt::map_half(x, [](double v) { return 1 / std::sqrt(v); });
}
template <reprise::simt::Half2 T>
T h2rsqrt(T x) {
  return reprise::simt::map_both(x, [](double v) { return 1 / std::sqrt(v); });
}
template <reprise::simt::Half T>
T hrcp(T x) {
  return reprise::simt::map_half(x, [](double v) { return 1 / v; });
}
template <reprise::simt::Half2 T>
T h2rcp(T x) {
  return reprise::simt::map_both(x, [](double v) { return 1 / v; });
}
template <reprise::simt::Half T>
T hsin(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::sin(v); });
}
template <reprise::simt::Half2 T>
T h2sin(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::sin(v); });
}
template <reprise::simt::Half T>
T hcos(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::cos(v); });
}
template <reprise::simt::Half2 T>
T h2cos(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::cos(v); });
}
template <reprise::simt::Half T>
T htanh(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::tanh(v); });
}
template <reprise::simt::Half2 T>
T h2tanh(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::tanh(v); });
}
template <reprise::simt::Half T>
T hfloor(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::floor(v); });
}
template <reprise::simt::Half2 T>
T h2floor(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::floor(v); });
}
template <reprise::simt::Half T>
T hceil(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::ceil(v); });
}
template <reprise::simt::Half2 T>
T h2ceil(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::ceil(v); });
}
template <reprise::simt::Half T>
T hrint(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::nearbyint(v); });
}
template <reprise::simt::Half2 T>
T h2rint(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::nearbyint(v); });
}
template <reprise::simt::Half T>
T htrunc(T x) {
  return reprise::simt::map_half(x, [](double v) { return std::trunc(v); });
}
template <reprise::simt::Half2 T>
T h2trunc(T x) {
  return reprise::simt::map_both(x, [](double v) { return std::trunc(v); });
}
