// What the elementwise formulas are made of on the CPU: vectors of float (cpu/simd_math.h), double by libm.
#pragma once

#include "reprise/kernels/cpu/simd_math.h"
#include "reprise/kernels/elementwise/formulas.h"

namespace reprise::kernels {

struct CpuMath {
  template <class V>
  static constexpr bool spills_by_division = false;

  template <class V>
  [[gnu::always_inline]] static V exp(V x) {
    return simd::exp(x);
  }
  template <class V>
  [[gnu::always_inline]] static V tanh(V x) {
    return simd::tanh(x);
  }
  template <class V>
  [[gnu::always_inline]] static V sigmoid(V x) {
    return simd::sigmoid(x);
  }
  template <class V>
  [[gnu::always_inline]] static V erf(V x) {
    return simd::erf(x);
  }
  template <class V>
  [[gnu::always_inline]] static V abs(V x) {
    if constexpr (std::is_arithmetic_v<V>)
      return std::fabs(x);
    else
      return simd::detail::magnitude(x);
  }

  // Lane by lane, for the ops that no training loop is bound by; sqrt is one instruction, and compilers join
  // the lanes.
  template <class V>
  [[gnu::always_inline]] static V sqrt(V x) {
    return by_lane([](auto lane) { return std::sqrt(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V log(V x) {
    return by_lane([](auto lane) { return std::log(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V log1p(V x) {
    return by_lane([](auto lane) { return std::log1p(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V floor(V x) {
    return by_lane([](auto lane) { return std::floor(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V ceil(V x) {
    return by_lane([](auto lane) { return std::ceil(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V nearbyint(V x) {
    return by_lane([](auto lane) { return std::nearbyint(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V trunc(V x) {
    return by_lane([](auto lane) { return std::trunc(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V expm1(V x) {
    return by_lane([](auto lane) { return std::expm1(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V sin(V x) {
    return by_lane([](auto lane) { return std::sin(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V cos(V x) {
    return by_lane([](auto lane) { return std::cos(lane); }, x);
  }
  template <class V>
  [[gnu::always_inline]] static V pow(V a, V b) {
    return by_lane([](auto x, auto y) { return std::pow(x, y); }, a, b);
  }
  template <class V>
  [[gnu::always_inline]] static V fmod(V a, V b) {
    return by_lane([](auto x, auto y) { return std::fmod(x, y); }, a, b);
  }

 private:
  template <class V, class... More>
  [[gnu::always_inline]] static V by_lane(auto function, V x, More... more) {
    if constexpr (std::is_arithmetic_v<V>) {
      return function(x, more...);
    } else {
      for (size_t i = 0; i < sizeof(V) / sizeof(x[0]); ++i) x[i] = function(x[i], more[i]...);
      return x;
    }
  }
};

using CpuFormulas = Formulas<CpuMath>;

namespace detail {
/// Whether the formulas F stand in the order of the table, and are what it says of them.
template <class... Operands, class Op, size_t n, class... F>
constexpr bool table_describes(const OpRow<Op> (&table)[n], const std::tuple<F...>*) {
  size_t i = 0;
  auto describes = [&]<class G>(const OpRow<Op>& row) {
    const bool integers = requires(G g, Operands... x) { g(int64_t(x)...); };
    const bool gradient = requires(G g, double x) { g.gradient(x, x); };
    const bool boolean = std::is_same_v<std::invoke_result_t<G, Operands...>, bool>;
    return row.op == Op(i++) && row.op == G::op &&
           (row.traits & ~mixes_floats) ==
               integers * takes_integers + gradient * differentiable + boolean * writes_bool;
  };
  return sizeof...(F) == n && (describes.template operator()<F>(table[i]) && ...);
}
static_assert(table_describes<double>(unary_table, static_cast<CpuFormulas::Unary*>(nullptr)));
static_assert(table_describes<double, double>(binary_table, static_cast<CpuFormulas::Binary*>(nullptr)));
}  // namespace detail

}  // namespace reprise::kernels
