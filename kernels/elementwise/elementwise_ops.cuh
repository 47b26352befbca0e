// The formulas of the elementwise ops in device code: one functor each, for float, double or (where the op is
// closed over integers) int64_t. The CPU's are in kernels/elementwise/elementwise_ops.h. Comparisons and
// logic give bool.
#pragma once

#include <cmath>
#include <concepts>
#include <tuple>

#include "reprise/kernels/elementwise/elementwise.cuh"
#include "reprise/kernels/elementwise/math.cuh"

namespace reprise::kernels::device {

template <class C>
concept Floating = std::floating_point<C>;

// Integer arithmetic wraps, as the hardware's does.
struct Add {
  template <class C>
  __device__ C operator()(C a, C b) const {
    if constexpr (std::integral<C>)
      return C(uint64_t(a) + uint64_t(b));
    else
      return a + b;
  }
};
struct Sub {
  template <class C>
  __device__ C operator()(C a, C b) const {
    if constexpr (std::integral<C>)
      return C(uint64_t(a) - uint64_t(b));
    else
      return a - b;
  }
};
struct Mul {
  template <class C>
  __device__ C operator()(C a, C b) const {
    if constexpr (std::integral<C>)
      return C(uint64_t(a) * uint64_t(b));
    else
      return a * b;
  }
};
struct Div {
  template <Floating C>
  __device__ C operator()(C a, C b) const {
    return a / b;
  }
};
struct Pow {
  template <Floating C>
  __device__ C operator()(C a, C b) const {
    return std::pow(a, b);
  }
};
struct Maximum {  // NaN on either side is the result
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a > b || a != a ? a : b;
  }
};
struct Minimum {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a < b || a != a ? a : b;
  }
};
struct Equal {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a != b;
  }
};
struct Less {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a <= b;
  }
};
struct Greater {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a >= b;
  }
};
struct LogicalAnd {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a != C(0) && b != C(0);
  }
};
struct LogicalOr {
  template <class C>
  __device__ bool operator()(C a, C b) const {
    return a != C(0) || b != C(0);
  }
};

// Each differentiable unary op is f(x) and gradient(dy, x) = dy f'(x): Note [Gradients at extreme values] in
// kernels/elementwise/elementwise_ops.h.
struct Neg {
  template <class C>
  __device__ C operator()(C x) const {
    return std::integral<C> ? Sub{}(C(0), x) : -x;
  }
  template <Floating C>
  __device__ C gradient(C dy, C) const {
    return -dy;
  }
};
struct Abs {
  template <class C>
  __device__ C operator()(C x) const {
    if constexpr (std::integral<C>)
      return x < 0 ? Neg{}(x) : x;
    else
      return std::fabs(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    return x > C(0) ? dy : x < C(0) ? -dy : dy * x;
  }
};
struct Sign {  // keeps 0, -0 and NaN
  template <class C>
  __device__ C operator()(C x) const {
    return x > C(0) ? C(1) : x < C(0) ? C(-1) : x;
  }
  template <Floating C>
  __device__ C gradient(C, C) const {
    return C(0);
  }
};
struct Square {
  template <class C>
  __device__ C operator()(C x) const {
    return Mul{}(x, x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    C half = dy * x;
    return half + half;
  }
};
struct Reciprocal {
  template <Floating C>
  __device__ C operator()(C x) const {
    return C(1) / x;
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    if constexpr (sizeof(C) == 8) {  // a second division in f64 spills registers
      C r = C(1) / x;
      return -(dy * r) * r;
    }
    return -(dy / x) / x;
  }
};
struct Sqrt {
  template <Floating C>
  __device__ C operator()(C x) const {
    return std::sqrt(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    return dy / (C(2) * std::sqrt(x));
  }
};
struct Rsqrt {
  template <Floating C>
  __device__ C operator()(C x) const {
    return C(1) / std::sqrt(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    if constexpr (sizeof(C) == 8) {
      C r = C(1) / std::sqrt(x);
      return C(-0.5) * (dy * r) * r * r;
    }
    return -(dy / std::fabs(x)) / (C(2) * std::sqrt(x));
  }
};
struct Exp {
  template <Floating C>
  __device__ C operator()(C x) const {
    return std::exp(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    return dy * std::exp(x);
  }
};
struct Log {
  template <Floating C>
  __device__ C operator()(C x) const {
    return std::log(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    return dy / x;
  }
};
struct Sin {
  template <Floating C>
  __device__ C operator()(C x) const {
    return std::sin(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    return dy * std::cos(x);
  }
};
struct Cos {
  template <Floating C>
  __device__ C operator()(C x) const {
    return std::cos(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    return -dy * std::sin(x);
  }
};
struct Tanh {
  template <Floating C>
  __device__ C operator()(C x) const {
    return std::tanh(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    C t = std::exp(C(-2) * std::fabs(x)), sum = C(1) + t;
    return dy * (C(4) * t / (sum * sum));
  }
};
struct Sigmoid {
  template <Floating C>
  __device__ C operator()(C x) const {
    return sigmoid(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    C t = std::exp(-std::fabs(x)), sum = C(1) + t;
    return dy * (t / (sum * sum));
  }
};
struct Erf {
  template <Floating C>
  __device__ C operator()(C x) const {
    return std::erf(x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {  // 2 / sqrt(pi) e^(-x^2)
    return dy * (C(1.12837916709551257390) * std::exp(-x * x));
  }
};
template <Activation activation>
struct Activate {
  template <Floating C>
  __device__ C operator()(C x) const {
    return activate(activation, x);
  }
  template <Floating C>
  __device__ C gradient(C dy, C x) const {
    return activation_gradient(activation, dy, x);
  }
};
struct Relu : Activate<Activation::relu> {
  using Activate<Activation::relu>::operator();
  __device__ int64_t operator()(int64_t x) const { return x < 0 ? 0 : x; }
};
struct LogicalNot {
  template <class C>
  __device__ bool operator()(C x) const {
    return x == C(0);
  }
};
struct IsFinite {
  template <class C>
  __device__ bool operator()(C x) const {
    return x - x == C(0);
  }
};

/// The gradient of F as a binary op on (dy, x).
template <class F>
struct GradientOf {
  template <Floating C>
  requires requires(F f, C x) { f.gradient(x, x); }
  __device__ C operator()(C dy, C x) const { return F{}.gradient(dy, x); }
};

// Sine and cosine of large arguments, and powers, take hundreds of instructions.
template <>
inline constexpr bool is_long<Sin> = true;
template <>
inline constexpr bool is_long<Cos> = true;
template <>
inline constexpr bool is_long<Pow> = true;
template <class F>
inline constexpr bool is_long<GradientOf<F>> = is_long<F>;

/// In the order of UnaryOp and BinaryOp.
using UnaryFormulas =
    std::tuple<Neg, Abs, Sign, Square, Reciprocal, Sqrt, Rsqrt, Exp, Log, Sin, Cos, Tanh, Sigmoid, Erf, Relu,
               Activate<Activation::gelu>, Activate<Activation::gelu_tanh>, Activate<Activation::silu>,
               LogicalNot, IsFinite>;
using BinaryFormulas = std::tuple<Add, Sub, Mul, Div, Pow, Maximum, Minimum, Equal, NotEqual, Less, LessEqual,
                                  Greater, GreaterEqual, LogicalAnd, LogicalOr>;

}  // namespace reprise::kernels::device
