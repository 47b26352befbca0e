// The formulas of the elementwise ops: one functor each, for a vector of floats, a double, or (where the op
// is closed over integers) an int64. Comparisons and logic give 1 or 0.
#pragma once

#include <concepts>
#include <tuple>

#include "reprise/kernels/elementwise/activation_math.h"

namespace reprise::kernels::elementwise {

template <class V>
struct ElementOf {
  using type = simd::Lane<V>;
};
template <>
struct ElementOf<int64_t> {
  using type = int64_t;
};
/// The type of one number in V.
template <class V>
using Element = typename ElementOf<V>::type;

template <class V>
concept Floating = !std::integral<V>;

/// All lanes hold `value`, a -0 too.
template <class V>
[[gnu::always_inline]] inline V all(Element<V> value) {
  return value - V{};
}

template <class V, class Mask>
[[gnu::always_inline]] inline V one_if(Mask mask) {
  return mask ? all<V>(1) : V{};
}

// Note [Masks]: a | or & of two comparisons, and nested selects that amount to one, make GCC 12 take vectors
// apart lane by lane when the function they were written in has a narrower instruction set than the one it is
// inlined into. So the results of single selects are joined, as numbers or as bits.

/// `x` where it is NaN, else `otherwise`.
template <class V>
[[gnu::always_inline]] inline V nan_or(V x, V otherwise) {
  if constexpr (std::is_arithmetic_v<V>) {
    return x != x ? x : otherwise;
  } else {
    using I = decltype(x < x);
    I bits = x != x ? reinterpret_cast<I>(x) : I{};  // all exponent bits are set, and stay so
    return reinterpret_cast<V>(reinterpret_cast<I>(otherwise) | bits);
  }
}

/// Calls a libm function on each lane: for the ops that no training loop is bound by.
template <class V, class Function, class... More>
[[gnu::always_inline]] inline V by_lane(Function function, V x, More... more) {
  if constexpr (std::is_arithmetic_v<V>) {
    return function(x, more...);
  } else {
    for (size_t i = 0; i < sizeof(V) / sizeof(x[0]); ++i) x[i] = function(x[i], more[i]...);
    return x;
  }
}

/// Lane-wise square root: std::sqrt is one instruction, and compilers join the lanes.
template <class V>
[[gnu::always_inline]] inline V square_root(V x) {
  return by_lane([](auto lane) { return std::sqrt(lane); }, x);
}

// Integer arithmetic wraps, as the hardware's does.
struct Add {
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
  int64_t operator()(int64_t a, int64_t b) const { return int64_t(uint64_t(a) + uint64_t(b)); }
};
struct Sub {
  template <class V>
  V operator()(V a, V b) const {
    return a - b;
  }
  int64_t operator()(int64_t a, int64_t b) const { return int64_t(uint64_t(a) - uint64_t(b)); }
};
struct Mul {
  template <class V>
  V operator()(V a, V b) const {
    return a * b;
  }
  int64_t operator()(int64_t a, int64_t b) const { return int64_t(uint64_t(a) * uint64_t(b)); }
};
struct Div {
  template <Floating V>
  V operator()(V a, V b) const {
    return a / b;
  }
};
struct Pow {
  template <Floating V>
  V operator()(V a, V b) const {
    return by_lane([](auto x, auto y) { return std::pow(x, y); }, a, b);
  }
};
struct Maximum {  // NaN on either side is the result
  template <class V>
  V operator()(V a, V b) const {
    return nan_or(a, a > b ? a : b);
  }
};
struct Minimum {
  template <class V>
  V operator()(V a, V b) const {
    return nan_or(a, a < b ? a : b);
  }
};
struct Equal {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(a == b);
  }
};
struct NotEqual {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(a != b);
  }
};
struct Less {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(a < b);
  }
};
struct LessEqual {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(a <= b);
  }
};
struct Greater {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(a > b);
  }
};
struct GreaterEqual {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(a >= b);
  }
};
struct LogicalAnd {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(one_if<V>(a != V{}) + one_if<V>(b != V{}) > all<V>(1));
  }
};
struct LogicalOr {
  template <class V>
  V operator()(V a, V b) const {
    return one_if<V>(one_if<V>(a != V{}) + one_if<V>(b != V{}) > V{});
  }
};

// Each differentiable unary op is f(x) and gradient(dy, x) = dy f'(x).
//
// Note [Gradients at extreme values]
// A gradient whose value has a place in the dtype must come out, also where f' alone, or a square inside it,
// would overflow or underflow. So dy is divided step by step instead of by a product, a factor of 2 comes
// last, where it is exact, and 1 - tanh^2 and s (1 - s), which cancel far out, are made of e^-|x|.
struct Neg {
  template <class V>
  V operator()(V x) const {
    return -x;
  }
  int64_t operator()(int64_t x) const { return Sub{}(int64_t(0), x); }
  template <Floating V>
  V gradient(V dy, V) const {
    return -dy;
  }
};
struct Abs {
  template <class V>
  V operator()(V x) const {
    return simd::detail::magnitude(x);
  }
  double operator()(double x) const { return std::fabs(x); }
  int64_t operator()(int64_t x) const { return x < 0 ? Neg{}(x) : x; }
  template <Floating V>
  V gradient(V dy, V x) const {
    return x > V{} ? dy : x < V{} ? -dy : dy * x;
  }
};
struct Sign {  // keeps 0, -0 and NaN
  template <class V>
  V operator()(V x) const {
    return x > V{} ? all<V>(1) : x < V{} ? all<V>(-1) : x;
  }
  template <Floating V>
  V gradient(V, V) const {
    return V{};
  }
};
struct Square {
  template <class V>
  V operator()(V x) const {
    return Mul{}(x, x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    V half = dy * x;
    return half + half;
  }
};
struct Reciprocal {
  template <Floating V>
  V operator()(V x) const {
    return all<V>(1) / x;
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return -(dy / x) / x;
  }
};
struct Sqrt {
  template <Floating V>
  V operator()(V x) const {
    return square_root(x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return dy / (Element<V>(2) * square_root(x));
  }
};
struct Rsqrt {
  template <Floating V>
  V operator()(V x) const {
    return all<V>(1) / square_root(x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return -(dy / Abs{}(x)) / (Element<V>(2) * square_root(x));  // |x| gives -0 the sign PyTorch gives it
  }
};
struct Exp {
  template <Floating V>
  V operator()(V x) const {
    return simd::exp(x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return dy * simd::exp(x);
  }
};
struct Log {
  template <Floating V>
  V operator()(V x) const {
    return by_lane([](auto lane) { return std::log(lane); }, x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return dy / x;
  }
};
struct Sin {
  template <Floating V>
  V operator()(V x) const {
    return by_lane([](auto lane) { return std::sin(lane); }, x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return dy * by_lane([](auto lane) { return std::cos(lane); }, x);
  }
};
struct Cos {
  template <Floating V>
  V operator()(V x) const {
    return by_lane([](auto lane) { return std::cos(lane); }, x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return -dy * Sin{}(x);
  }
};
struct Tanh {
  template <Floating V>
  V operator()(V x) const {
    return simd::tanh(x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    V t = simd::exp(Element<V>(-2) * Abs{}(x)), sum = all<V>(1) + t;
    return dy * (Element<V>(4) * t / (sum * sum));
  }
};
struct Sigmoid {
  template <Floating V>
  V operator()(V x) const {
    return simd::sigmoid(x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    V t = simd::exp(-Abs{}(x)), sum = all<V>(1) + t;
    return dy * (t / (sum * sum));
  }
};
struct Erf {
  template <Floating V>
  V operator()(V x) const {
    return simd::erf(x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {  // 2 / sqrt(pi) e^(-x^2)
    return dy * (Element<V>(1.12837916709551257390) * simd::exp(-x * x));
  }
};
template <Activation activation>
struct Activate {
  template <Floating V>
  V operator()(V x) const {
    return activate(activation, x);
  }
  template <Floating V>
  V gradient(V dy, V x) const {
    return activation_gradient(activation, dy, x);
  }
};
struct Relu : Activate<Activation::relu> {
  using Activate<Activation::relu>::operator();
  int64_t operator()(int64_t x) const { return x < 0 ? 0 : x; }
};
struct LogicalNot {
  template <class V>
  V operator()(V x) const {
    return one_if<V>(x == V{});
  }
};
struct IsFinite {
  template <class V>
  V operator()(V x) const {
    return one_if<V>(x - x == V{});
  }
};

/// The gradient of F as a binary op on (dy, x).
template <class F>
struct GradientOf {
  template <Floating V>
  requires requires(F f, V v) { f.gradient(v, v); }
  V operator()(V dy, V x) const { return F{}.gradient(dy, x); }
};

/// In the order of UnaryOp and BinaryOp.
using UnaryFormulas =
    std::tuple<Neg, Abs, Sign, Square, Reciprocal, Sqrt, Rsqrt, Exp, Log, Sin, Cos, Tanh, Sigmoid, Erf, Relu,
               Activate<Activation::gelu>, Activate<Activation::gelu_tanh>, Activate<Activation::silu>,
               LogicalNot, IsFinite>;
using BinaryFormulas = std::tuple<Add, Sub, Mul, Div, Pow, Maximum, Minimum, Equal, NotEqual, Less, LessEqual,
                                  Greater, GreaterEqual, LogicalAnd, LogicalOr>;

}  // namespace reprise::kernels::elementwise
