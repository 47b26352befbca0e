// What the elementwise ops have in common on all devices: their names, what they ask of their views, and the
// way from an op to its formula. A device lists its formulas in a tuple, in the order of the enumerators.
#pragma once

#include <cmath>
#include <tuple>
#include <type_traits>
#include <utility>

#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::kernels {

inline constexpr size_t n_unary_ops = size_t(UnaryOp::is_finite) + 1;
inline constexpr size_t n_binary_ops = size_t(BinaryOp::logical_or) + 1;

const char* name_of(UnaryOp op);
const char* name_of(BinaryOp op);

constexpr bool writes_bool(UnaryOp op) { return op >= UnaryOp::logical_not; }
constexpr bool writes_bool(BinaryOp op) { return op >= BinaryOp::equal; }

// Errors name the op and what does not fit. `defined` says whether the op has a formula for the input's
// dtype.
void check_unary(UnaryOp op, const TensorView& x, const TensorView& y, bool defined);
void check_unary_backward(UnaryOp op, const TensorView& dy, const TensorView& x, const TensorView& dx,
                          bool defined);
void check_binary(BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y, bool defined);
void check_where(const TensorView& condition, const TensorView& a, const TensorView& b, const TensorView& y);

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
