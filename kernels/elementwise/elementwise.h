// Elementwise maths over views of one shape; broadcasting is a view with stride 0 (`expand`).
// Half types compute in f32, f64 in f64. Integer inputs are allowed where the op is closed over them. The views of an op that
// `mixes_floats` may each be of f32 or 16 bits, whatever the others are: the result is rounded once, to the dtype of y.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// Whether `add` takes them beside each other: f32 and 16 bits.
bool adds_to_f32(DType a, DType b);

enum class UnaryOp : uint8_t {
  neg,
  abs,
  square,
  reciprocal,
  sqrt,
  rsqrt,
  exp,
  log,
  sin,
  cos,
  tanh,
  sigmoid,
  erf,
  relu,
  gelu,
  gelu_tanh,
  silu,
  huber,
  floor,
  ceil,
  round,
  trunc,
  sign,
  log1p,
  expm1,
  softplus,
  is_finite
};
enum class BinaryOp : uint8_t {
  add,
  sub,
  mul,
  div,
  pow,
  fmod,
  remainder,
  bce_with_logits,
  maximum,
  minimum,
  equal,
  not_equal,
  less,
  less_equal,
  greater,
  greater_equal
};

/// y = op(x), of one dtype, but of an op that mixes them. is_finite writes bool.
extern Kernel<void(UnaryOp op, const TensorView& x, const TensorView& y)> unary;

/// dx = dy * op'(x), for the differentiable ops. x, dy and dx have one shape, and one dtype but of an op that mixes them.
extern Kernel<void(UnaryOp op, const TensorView& dy, const TensorView& x, const TensorView& dx)>
    unary_backward;

/// y = op(a, b). a and b have one dtype, but for an op that mixes them. Comparisons mix them, and write bool. For integers fmod and
/// remainder by 0 are 0. `add` also takes f32 beside 16 bits, and gives f32.
extern Kernel<void(BinaryOp op, const TensorView& a, const TensorView& b, const TensorView& y)> binary;

/// y = x * scale + shift.
extern Kernel<void(const TensorView& x, double scale, double shift, const TensorView& y)> affine;

/// y += alpha * x. Same shape and dtype.
extern Kernel<void(const TensorView& x, double alpha, const TensorView& y)> add_scaled;

/// y = condition ? a : b; condition is bool. a, b and y have one dtype, or are each of f32 or 16 bits.
extern Kernel<void(const TensorView& condition, const TensorView& a, const TensorView& b,
                   const TensorView& y)>
    where;

}  // namespace reprise::kernels
