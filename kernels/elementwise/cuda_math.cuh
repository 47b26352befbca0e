// What the elementwise formulas are made of on CUDA: its own maths, for float and double.
#pragma once

#include <cmath>

#include "reprise/kernels/elementwise/formulas.h"

namespace reprise::kernels::device {

struct CudaMath {
  template <class C>
  static constexpr bool spills_by_division = sizeof(C) == 8;  ///< by a second one in a formula

  template <class C>
  [[gnu::always_inline]] static constexpr C exp(C x) {
    return std::exp(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C tanh(C x) {
    return std::tanh(x);
  }
  /// 1 / (1 + e^-x): 0 and 1 far out, never NaN.
  template <class C>
  [[gnu::always_inline]] static constexpr C sigmoid(C x) {
    return C(1) / (C(1) + std::exp(-x));
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C erf(C x) {
    return std::erf(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C abs(C x) {
    return std::fabs(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C sqrt(C x) {
    return std::sqrt(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C log(C x) {
    return std::log(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C log1p(C x) {
    return std::log1p(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C floor(C x) {
    return std::floor(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C ceil(C x) {
    return std::ceil(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C nearbyint(C x) {
    return std::nearbyint(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C trunc(C x) {
    return std::trunc(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C expm1(C x) {
    return std::expm1(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C sin(C x) {
    return std::sin(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C cos(C x) {
    return std::cos(x);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C pow(C a, C b) {
    return std::pow(a, b);
  }
  template <class C>
  [[gnu::always_inline]] static constexpr C fmod(C a, C b) {
    return std::fmod(a, b);
  }
};

using CudaFormulas = Formulas<CudaMath>;

}  // namespace reprise::kernels::device
