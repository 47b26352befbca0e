// What the elementwise ops have in common on all devices: the table of them, what they ask of their views,
// and the way from an op to its formula (formulas.h).
#pragma once

#include <cmath>
#include <iterator>
#include <tuple>
#include <type_traits>
#include <utility>

#include "reprise/kernels/elementwise/activation.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::kernels {

enum OpTraits : uint8_t {
  takes_integers = 1,
  differentiable = 2,
  writes_bool = 4,
  mixes_floats =
      8,  ///< its views but those of bool, those of its gradient too, may each be of f32 or 16 bits
};

template <class Op>
struct OpRow {
  Op op;
  const char* name;
  int traits = 0;
};

/// In the order of the enumerators.
inline constexpr OpRow<UnaryOp> unary_table[] = {
    {UnaryOp::neg, "neg", takes_integers | differentiable},
    {UnaryOp::abs, "abs", takes_integers | differentiable},
    {UnaryOp::square, "square", takes_integers | differentiable | mixes_floats},
    {UnaryOp::reciprocal, "reciprocal", differentiable | mixes_floats},
    {UnaryOp::sqrt, "sqrt", differentiable | mixes_floats},
    {UnaryOp::rsqrt, "rsqrt", differentiable | mixes_floats},
    {UnaryOp::exp, "exp", differentiable | mixes_floats},
    {UnaryOp::log, "log", differentiable | mixes_floats},
    {UnaryOp::sin, "sin", differentiable},
    {UnaryOp::cos, "cos", differentiable},
    {UnaryOp::tanh, "tanh", differentiable},
    {UnaryOp::sigmoid, "sigmoid", differentiable | mixes_floats},
    {UnaryOp::erf, "erf", differentiable},
    {UnaryOp::relu, "relu", takes_integers | differentiable},
    {UnaryOp::gelu, "gelu", differentiable},
    {UnaryOp::gelu_tanh, "gelu_tanh", differentiable},
    {UnaryOp::silu, "silu", differentiable},
    {UnaryOp::huber, "huber", differentiable},
    {UnaryOp::floor, "floor", takes_integers | differentiable},
    {UnaryOp::ceil, "ceil", takes_integers | differentiable},
    {UnaryOp::round, "round", takes_integers | differentiable},
    {UnaryOp::trunc, "trunc", takes_integers | differentiable},
    {UnaryOp::sign, "sign", takes_integers | differentiable},
    {UnaryOp::log1p, "log1p", differentiable | mixes_floats},
    {UnaryOp::expm1, "expm1", differentiable | mixes_floats},
    {UnaryOp::softplus, "softplus", differentiable | mixes_floats},
    {UnaryOp::is_finite, "is_finite", takes_integers | writes_bool}};
inline constexpr OpRow<BinaryOp> binary_table[] = {
    {BinaryOp::add, "add", takes_integers},
    {BinaryOp::sub, "sub", takes_integers | mixes_floats},
    {BinaryOp::mul, "mul", takes_integers | mixes_floats},
    {BinaryOp::div, "div", mixes_floats},
    {BinaryOp::pow, "pow", mixes_floats},
    {BinaryOp::fmod, "fmod", takes_integers},
    {BinaryOp::remainder, "remainder", takes_integers},
    {BinaryOp::bce_with_logits, "bce_with_logits", mixes_floats},
    {BinaryOp::maximum, "maximum", takes_integers | mixes_floats},
    {BinaryOp::minimum, "minimum", takes_integers | mixes_floats},
    {BinaryOp::equal, "equal", takes_integers | writes_bool | mixes_floats},
    {BinaryOp::not_equal, "not_equal", takes_integers | writes_bool | mixes_floats},
    {BinaryOp::less, "less", takes_integers | writes_bool | mixes_floats},
    {BinaryOp::less_equal, "less_equal", takes_integers | writes_bool | mixes_floats},
    {BinaryOp::greater, "greater", takes_integers | writes_bool | mixes_floats},
    {BinaryOp::greater_equal, "greater_equal", takes_integers | writes_bool | mixes_floats}};

template <class Op, size_t n>
constexpr const OpRow<Op>& row_of(const OpRow<Op> (&table)[n], Op op) {
  if (size_t(op) >= n) throw Bug(reprise::detail::join("elementwise: unknown op ", int(op)));
  return table[size_t(op)];
}
constexpr const OpRow<UnaryOp>& row_of(UnaryOp op) { return row_of(unary_table, op); }
constexpr const OpRow<BinaryOp>& row_of(BinaryOp op) { return row_of(binary_table, op); }
constexpr const char* name_of(auto op) { return row_of(op).name; }
constexpr bool mixes(auto op) { return row_of(op).traits & mixes_floats; }

/// The op that applies `activation`, which is not none.
constexpr UnaryOp unary_of(Activation activation) {
  return UnaryOp(int(UnaryOp::relu) + int(activation) - int(Activation::relu));
}
static_assert(unary_of(Activation::gelu) == UnaryOp::gelu &&
              unary_of(Activation::gelu_tanh) == UnaryOp::gelu_tanh &&
              unary_of(Activation::silu) == UnaryOp::silu);

// Errors name the op and what does not fit.
void check_unary(UnaryOp op, const TensorView& x, const TensorView& y);
void check_unary_backward(UnaryOp op, const TensorView& dy, const TensorView& x, const TensorView& dx);
void check_binary(BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y);
void check_where(const TensorView& condition, const TensorView& a, const TensorView& b, const TensorView& y);

/// T, once for each V.
template <class T, class V>
struct ForEachOf {
  using type = T;
};
template <class T, class V>
using ForEach = typename ForEachOf<T, V>::type;

/// The scalar of an op on C. Integer ops take whole numbers only: a fraction would be lost silently.
template <class C>
C scalar_operand(const char* op, double value, DType dtype) {
  if constexpr (std::is_integral_v<C>)
    check(value == std::nearbyint(value) && std::fabs(value) < 0x1p63, op, ": ", value,
          " is not a whole number, and the tensor is ", dtype);
  return C(value);
}

/// Calls `body.operator()<F>()` with member number `index` of the tuple `Formulas`.
template <class Formulas, class Body>
constexpr void dispatch_formula(size_t index, Body&& body) {
  [&]<size_t... I>(std::index_sequence<I...>) {
    (void)((I == index && (body.template operator()<std::tuple_element_t<I, Formulas>>(), true)) || ...);
  }
  (std::make_index_sequence<std::tuple_size_v<Formulas>>());
}

}  // namespace reprise::kernels
