// The formulas of the elementwise ops, once for all devices: a functor each, for double, for int64_t where
// the op is closed over integers, and for the floats of a device: a vector of them on the CPU (cpu_math.h),
// one on CUDA (cuda_math.cuh). These files say what `Math` is: exp, erf and the like, found by overload.
//
// Everything here is inlined: Note [Vectors never cross a call] in kernels/cpu/simd.h. Device code may call
// it because it is constexpr.
#pragma once

#include <concepts>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "reprise/kernels/elementwise/activation.h"
#include "reprise/kernels/elementwise/elementwise_table.h"

namespace reprise::kernels {

/// The type of one number in V, a vector or a number.
template <class V>
struct NumberOf {
  using type = V;
};
template <class V>
requires requires(V v) { v[0]; }
struct NumberOf<V> {
  using type = std::remove_cvref_t<decltype(std::declval<V&>()[0])>;
};
template <class V>
using Number = typename NumberOf<V>::type;

template <class V>
concept Floating = !std::integral<V>;

/// All lanes hold `value`, a -0 too.
template <class V>
[[gnu::always_inline]] constexpr inline V all(Number<V> value) {
  return value - V{};
}

// Note [Masks]: a | or & of two comparisons, and nested selects that amount to one, make GCC 12 take vectors
// apart lane by lane when the function they were written in has a narrower instruction set than the one it is
// inlined into. So the results of single selects are joined, as numbers or as bits.

/// A comparison of two V as the result of an op: bool for numbers, 1 or 0 in vectors.
template <class V>
[[gnu::always_inline]] constexpr inline auto truth(auto mask) {
  if constexpr (std::is_arithmetic_v<V>)
    return mask;
  else
    return mask ? all<V>(1) : V{};
}

/// `x` where it is NaN, else `otherwise`.
template <class V>
[[gnu::always_inline]] constexpr inline V nan_or(V x, V otherwise) {
  if constexpr (std::is_arithmetic_v<V>) {
    return x != x ? x : otherwise;
  } else {
    using I = decltype(x < x);
    I bits = x != x ? reinterpret_cast<I>(x) : I{};  // all exponent bits are set, and stay so
    return reinterpret_cast<V>(reinterpret_cast<I>(otherwise) | bits);
  }
}

/// The op that a formula is of.
template <auto which>
struct Of {
  static constexpr auto op = which;
};

#define REPRISE_FORMULA [[gnu::always_inline]] constexpr inline auto

template <class Math>
struct Formulas {
  // Integer arithmetic wraps, as the hardware's does.
  struct Add : Of<BinaryOp::add> {
    REPRISE_FORMULA operator()(auto a, auto b) const {
      if constexpr (std::integral<decltype(a)>)
        return int64_t(uint64_t(a) + uint64_t(b));
      else
        return a + b;
    }
  };
  struct Sub : Of<BinaryOp::sub> {
    REPRISE_FORMULA operator()(auto a, auto b) const {
      if constexpr (std::integral<decltype(a)>)
        return int64_t(uint64_t(a) - uint64_t(b));
      else
        return a - b;
    }
  };
  struct Mul : Of<BinaryOp::mul> {
    REPRISE_FORMULA operator()(auto a, auto b) const {
      if constexpr (std::integral<decltype(a)>)
        return int64_t(uint64_t(a) * uint64_t(b));
      else
        return a * b;
    }
  };
  struct Div : Of<BinaryOp::div> {
    REPRISE_FORMULA operator()(Floating auto a, Floating auto b) const { return a / b; }
  };
  struct Pow : Of<BinaryOp::pow> {
    static constexpr bool is_long = true;  ///< hundreds of instructions, not to be unrolled
    REPRISE_FORMULA operator()(Floating auto a, Floating auto b) const { return Math::pow(a, b); }
  };
  struct Fmod : Of<BinaryOp::fmod> {  // the sign is that of a
    static constexpr bool is_long = true;
    REPRISE_FORMULA operator()(auto a, auto b) const {
      if constexpr (std::integral<decltype(a)>)
        return b == 0 || b == -1 ? int64_t(0) : a % b;  // the least number has no quotient by -1
      else
        return Math::fmod(a, b);
    }
  };
  struct Remainder : Of<BinaryOp::remainder> {  // the sign is that of b
    static constexpr bool is_long = true;
    template <class V>
    REPRISE_FORMULA operator()(V a, V b) const {
      const V rest = Fmod{}(a, b);
      const V signs = V(truth<V>(rest < V{})) - V(truth<V>(b < V{}));
      const V moves = signs * signs * V(truth<V>(rest != V{}));
      return moves > V{} ? rest + b : rest;
    }
  };
  /// t log(1 + e^-x) + (1 - t) log(1 + e^x), without an exponential that overflows, or a difference that cancels.
  struct BceWithLogits : Of<BinaryOp::bce_with_logits> {
    static constexpr bool is_long = true;
    template <Floating V>
    REPRISE_FORMULA operator()(V x, V t) const {
      const V above = x < V{} ? V{} : x, below = x > V{} ? V{} : -x;
      return Math::log1p(Math::exp(-Math::abs(x))) + (t * below + (all<V>(1) - t) * above);
    }
  };
  struct Maximum : Of<BinaryOp::maximum> {  // NaN on either side is the result
    REPRISE_FORMULA operator()(auto a, auto b) const { return nan_or(a, a > b ? a : b); }
  };
  struct Minimum : Of<BinaryOp::minimum> {
    REPRISE_FORMULA operator()(auto a, auto b) const { return nan_or(a, a < b ? a : b); }
  };
  struct Equal : Of<BinaryOp::equal> {
    REPRISE_FORMULA operator()(auto a, auto b) const { return truth<decltype(a)>(a == b); }
  };
  struct NotEqual : Of<BinaryOp::not_equal> {
    REPRISE_FORMULA operator()(auto a, auto b) const { return truth<decltype(a)>(a != b); }
  };
  struct Less : Of<BinaryOp::less> {
    REPRISE_FORMULA operator()(auto a, auto b) const { return truth<decltype(a)>(a < b); }
  };
  struct LessEqual : Of<BinaryOp::less_equal> {
    REPRISE_FORMULA operator()(auto a, auto b) const { return truth<decltype(a)>(a <= b); }
  };
  struct Greater : Of<BinaryOp::greater> {
    REPRISE_FORMULA operator()(auto a, auto b) const { return truth<decltype(a)>(a > b); }
  };
  struct GreaterEqual : Of<BinaryOp::greater_equal> {
    REPRISE_FORMULA operator()(auto a, auto b) const { return truth<decltype(a)>(a >= b); }
  };

  // Each differentiable unary op is f(x) and gradient(dy, x) = dy f'(x).
  //
  // Note [Gradients at extreme values]
  // A gradient whose value has a place in the dtype must come out, also where f' alone, or a square inside
  // it, would overflow or underflow. So dy is divided step by step instead of by a product, a factor of 2
  // comes last, where it is exact, and 1 - tanh^2 and s (1 - s), which cancel far out, are made of e^-|x|.
  struct Neg : Of<UnaryOp::neg> {
    REPRISE_FORMULA operator()(auto x) const {
      if constexpr (std::integral<decltype(x)>)
        return Sub{}(int64_t(0), x);
      else
        return -x;
    }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto) const { return -dy; }
  };
  struct Abs : Of<UnaryOp::abs> {
    REPRISE_FORMULA operator()(auto x) const {
      if constexpr (std::integral<decltype(x)>)
        return x < 0 ? Neg{}(x) : x;
      else
        return Math::abs(x);
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      return x > V{} ? dy : x < V{} ? -dy : dy * x;
    }
  };
  struct Square : Of<UnaryOp::square> {
    REPRISE_FORMULA operator()(auto x) const { return Mul{}(x, x); }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const {
      auto half = dy * x;
      return half + half;
    }
  };
  struct Reciprocal : Of<UnaryOp::reciprocal> {
    template <Floating V>
    REPRISE_FORMULA operator()(V x) const {
      return all<V>(1) / x;
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      if constexpr (Math::template spills_by_division<V>) {
        V r = V(1) / x;
        return -(dy * r) * r;
      } else {
        return -(dy / x) / x;
      }
    }
  };
  struct Sqrt : Of<UnaryOp::sqrt> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::sqrt(x); }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      return dy / (Number<V>(2) * Math::sqrt(x));
    }
  };
  struct Rsqrt : Of<UnaryOp::rsqrt> {
    template <Floating V>
    REPRISE_FORMULA operator()(V x) const {
      return all<V>(1) / Math::sqrt(x);
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      if constexpr (Math::template spills_by_division<V>) {
        V r = V(1) / Math::sqrt(x);
        return V(-0.5) * (dy * r) * r * r;
      } else {  // |x| gives -0 the sign PyTorch gives it
        return -(dy / Math::abs(x)) / (Number<V>(2) * Math::sqrt(x));
      }
    }
  };
  struct Exp : Of<UnaryOp::exp> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::exp(x); }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const { return dy * Math::exp(x); }
  };
  struct Log : Of<UnaryOp::log> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::log(x); }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const { return dy / x; }
  };
  struct Sin : Of<UnaryOp::sin> {
    static constexpr bool is_long = true;
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::sin(x); }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const { return dy * Math::cos(x); }
  };
  struct Cos : Of<UnaryOp::cos> {
    static constexpr bool is_long = true;
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::cos(x); }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const { return -dy * Math::sin(x); }
  };
  struct Tanh : Of<UnaryOp::tanh> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::tanh(x); }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      V t = Math::exp(Number<V>(-2) * Math::abs(x)), sum = all<V>(1) + t;
      return dy * (Number<V>(4) * t / (sum * sum));
    }
  };
  struct Sigmoid : Of<UnaryOp::sigmoid> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::sigmoid(x); }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      V t = Math::exp(-Math::abs(x)), sum = all<V>(1) + t;
      return dy * (t / (sum * sum));
    }
  };
  struct Erf : Of<UnaryOp::erf> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::erf(x); }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {  // 2 / sqrt(pi) e^(-x^2)
      return dy * (Number<V>(1.12837916709551257390) * Math::exp(-x * x));
    }
  };

  struct Identity {
    REPRISE_FORMULA operator()(auto x) const { return x; }
    REPRISE_FORMULA gradient(auto dy, auto) const { return dy; }
  };
  /// Keeps NaN; its gradient passes dy on where x > 0 or is NaN, and keeps an infinite dy out elsewhere, as
  /// in PyTorch.
  struct Relu : Of<UnaryOp::relu> {
    template <class V>
    REPRISE_FORMULA operator()(V x) const {
      return x < V{} ? V{} : x;
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      return x <= V{} ? V{} : dy;
    }
  };
  struct Gelu : Of<UnaryOp::gelu> {
    /// The standard normal distribution: its integral up to x, and its density.
    template <class V, class T = Number<V>>
    REPRISE_FORMULA cdf(V x) const {
      return T(0.5) * (T(1) + Math::erf(x * T(0.70710678118654752440)));
    }
    template <class V, class T = Number<V>>
    REPRISE_FORMULA density(V x) const {
      return T(0.39894228040143267794) * Math::exp(T(-0.5) * x * x);
    }
    REPRISE_FORMULA operator()(Floating auto x) const { return x * cdf(x); }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const {
      return dy * (cdf(x) + x * density(x));
    }
  };
  /// x/2 (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3) (Hendrycks and Gimpel, arXiv 1606.08415). (1 + tanh(u)) / 2 is
  /// sigmoid(2u): nothing cancels where x is negative, and one exp and one division are less than a tanh.
  struct GeluTanh : Of<UnaryOp::gelu_tanh> {
    static constexpr double scale = 0.79788456080286535588, cubic = 0.044715;

    template <Floating V, class T = Number<V>>
    REPRISE_FORMULA operator()(V x) const {
      return x * gate(x);
    }
    template <Floating V, class T = Number<V>>
    REPRISE_FORMULA gradient(V dy, V x) const {
      // The slope of the gate is 0 far out, and so all that it is multiplied by: x^2 alone would overflow.
      const V s = gate(x), slope = x * (s * (T(1) - s));
      return dy * (s + T(2 * scale) * (slope + T(3 * cubic) * (slope * x * x)));
    }

   private:
    template <class V, class T = Number<V>>
    REPRISE_FORMULA gate(V x) const {
      return Math::sigmoid(T(2 * scale) * (x + T(cubic) * x * x * x));
    }
  };
  struct Silu : Of<UnaryOp::silu> {
    REPRISE_FORMULA operator()(Floating auto x) const { return x * Math::sigmoid(x); }
    template <Floating V, class T = Number<V>>
    REPRISE_FORMULA gradient(V dy, V x) const {
      V s = Math::sigmoid(x);
      return dy * (s * (T(1) + x * (T(1) - s)));
    }
  };
  /// x^2 / 2 where |x| < 1, |x| - 1 / 2 beyond (Huber 1964).
  struct Huber : Of<UnaryOp::huber> {
    template <Floating V, class T = Number<V>>
    REPRISE_FORMULA operator()(V x) const {
      const V size = Math::abs(x), near = size > all<V>(1) ? all<V>(1) : size;
      return near * (size - T(0.5) * near);
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      const V low = x < all<V>(-1) ? all<V>(-1) : x;
      return dy * (low > all<V>(1) ? all<V>(1) : low);
    }
  };
  struct Floor : Of<UnaryOp::floor> {
    REPRISE_FORMULA operator()(auto x) const {
      if constexpr (std::integral<decltype(x)>)
        return x;
      else
        return Math::floor(x);
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V, V) const {
      return V{};
    }
  };
  struct Ceil : Of<UnaryOp::ceil> {
    REPRISE_FORMULA operator()(auto x) const {
      if constexpr (std::integral<decltype(x)>)
        return x;
      else
        return Math::ceil(x);
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V, V) const {
      return V{};
    }
  };
  /// Halves to the even neighbour.
  struct Round : Of<UnaryOp::round> {
    REPRISE_FORMULA operator()(auto x) const {
      if constexpr (std::integral<decltype(x)>)
        return x;
      else
        return Math::nearbyint(x);
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V, V) const {
      return V{};
    }
  };
  struct Trunc : Of<UnaryOp::trunc> {
    REPRISE_FORMULA operator()(auto x) const {
      if constexpr (std::integral<decltype(x)>)
        return x;
      else
        return Math::trunc(x);
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V, V) const {
      return V{};
    }
  };
  /// Of NaN it is 0.
  struct Sign : Of<UnaryOp::sign> {
    template <class V>
    REPRISE_FORMULA operator()(V x) const {
      return V(truth<V>(x > V{})) - V(truth<V>(x < V{}));
    }
    template <Floating V>
    REPRISE_FORMULA gradient(V, V) const {
      return V{};
    }
  };
  struct Log1p : Of<UnaryOp::log1p> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::log1p(x); }
    template <Floating V>
    REPRISE_FORMULA gradient(V dy, V x) const {
      return dy / (all<V>(1) + x);
    }
  };
  struct Expm1 : Of<UnaryOp::expm1> {
    REPRISE_FORMULA operator()(Floating auto x) const { return Math::expm1(x); }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const { return dy * Math::exp(x); }
  };
  /// log(1 + e^x), without an exponential that overflows.
  struct Softplus : Of<UnaryOp::softplus> {
    static constexpr bool is_long = true;
    template <Floating V>
    REPRISE_FORMULA operator()(V x) const {
      const V above = x < V{} ? V{} : x;
      return above + Math::log1p(Math::exp(-Math::abs(x)));
    }
    REPRISE_FORMULA gradient(Floating auto dy, Floating auto x) const { return dy * Math::sigmoid(x); }
  };
  struct IsFinite : Of<UnaryOp::is_finite> {
    template <class V>
    REPRISE_FORMULA operator()(V x) const {
      return truth<V>(x - x == V{});
    }
  };

  /// silu(gate) up. Its gradients share the sigmoid.
  struct SwiGlu {
    template <class V>
    struct Gradients {
      V gate, up;
    };
    template <class V>
    REPRISE_FORMULA operator()(V gate, V up) const {
      return Silu{}(gate)*up;
    }
    template <class V, class T = Number<V>>
    REPRISE_FORMULA gradients(V dy, V gate, V up) const {
      V s = Math::sigmoid(gate);
      return Gradients<V>{dy * up * s * (T(1) + gate * (T(1) - s)), dy * gate * s};
    }
  };

  /// The gradient of F as a binary op on (dy, x).
  template <class F>
  struct GradientOf : Of<F::op> {
    static constexpr bool is_long = requires { F::is_long; };
    template <Floating V>
    requires requires(F f, V v) { f.gradient(v, v); }
    REPRISE_FORMULA operator()(V dy, V x) const { return F{}.gradient(dy, x); }
  };

  using Unary = std::tuple<Neg, Abs, Square, Reciprocal, Sqrt, Rsqrt, Exp, Log, Sin, Cos, Tanh, Sigmoid, Erf,
                           Relu, Gelu, GeluTanh, Silu, Huber, Floor, Ceil, Round, Trunc, Sign, Log1p, Expm1,
                           Softplus, IsFinite>;
  using Binary = std::tuple<Add, Sub, Mul, Div, Pow, Fmod, Remainder, BceWithLogits, Maximum, Minimum, Equal,
                            NotEqual, Less, LessEqual, Greater, GreaterEqual>;
  /// Of `Unary`; that of a formula without a gradient cannot be called.
  using Gradients = decltype([]<class... F>(std::tuple<F...>*) {
    return std::tuple<GradientOf<F>...>();
  }(static_cast<Unary*>(nullptr)));
  template <Activation activation>
  using Activate = std::tuple_element_t<size_t(activation), std::tuple<Identity, Relu, Gelu, GeluTanh, Silu>>;
};

#undef REPRISE_FORMULA

}  // namespace reprise::kernels
