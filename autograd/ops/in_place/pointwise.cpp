// Tensor's operations in place that are functions of one number each and have their twins in autograd/ops.h and
// elementwise/pointwise.h. Those of a number and an operand: operands.cpp.
#include "reprise/autograd/ops/elementwise/pointwise.h"

#include "reprise/autograd/ops/in_place/change.h"

namespace reprise {
namespace {

using namespace autograd;
using kernels::UnaryOp;

// of_itself of a kernel that integers do not have: they are refused as what has no place for the operation's result.
template <class F>
const Tensor& of_fractions(const char* op, const Tensor& x, UnaryOp kernel, const F& f) {
  check_self(x, op);
  return is_floating(x.dtype()) ? of_itself(op, x, kernel, f) : of_itself(op, x, f);
}

}  // namespace

const Tensor& Tensor::floor_() const { return of_itself("floor_", *this, UnaryOp::floor, floor); }
const Tensor& Tensor::ceil_() const { return of_itself("ceil_", *this, UnaryOp::ceil, ceil); }
const Tensor& Tensor::round_() const { return of_itself("round_", *this, UnaryOp::round, round); }
const Tensor& Tensor::trunc_() const { return of_itself("trunc_", *this, UnaryOp::trunc, trunc); }
const Tensor& Tensor::sign_() const { return of_itself("sign_", *this, UnaryOp::sign, sign); }
const Tensor& Tensor::sin_() const { return of_fractions("sin_", *this, UnaryOp::sin, sin); }
const Tensor& Tensor::cos_() const { return of_fractions("cos_", *this, UnaryOp::cos, cos); }
const Tensor& Tensor::erf_() const { return of_fractions("erf_", *this, UnaryOp::erf, erf); }
const Tensor& Tensor::log1p_() const { return of_fractions("log1p_", *this, UnaryOp::log1p, log1p); }
const Tensor& Tensor::expm1_() const { return of_fractions("expm1_", *this, UnaryOp::expm1, expm1); }
const Tensor& Tensor::reciprocal_() const {
  return of_fractions("reciprocal_", *this, UnaryOp::reciprocal, reciprocal);
}
const Tensor& Tensor::rsqrt_() const { return of_fractions("rsqrt_", *this, UnaryOp::rsqrt, rsqrt); }
const Tensor& Tensor::elu_(double alpha) const {
  return of_itself("elu_", *this, [=](const Tensor& x) { return elu(x, alpha); });
}
const Tensor& Tensor::leaky_relu_(double slope) const {
  return of_itself("leaky_relu_", *this, [=](const Tensor& x) { return leaky_relu(x, slope); });
}

}  // namespace reprise
