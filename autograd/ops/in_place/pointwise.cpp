// Tensor's operations in place that are functions of one number each and have their twins in autograd/ops.h and
// elementwise/pointwise.h. Those of a number and an operand: operands.cpp.
#include "reprise/autograd/ops/elementwise/pointwise.h"

#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"

namespace reprise {
namespace {

template <class F>
const Tensor& of_each(const char* op, const Tensor& x, const F& f) {
  autograd::check_self(x, op);
  return autograd::by_value(op, x, TensorList{}, f);
}

}  // namespace

const Tensor& Tensor::floor_() const { return of_each("floor_", *this, floor); }
const Tensor& Tensor::ceil_() const { return of_each("ceil_", *this, ceil); }
const Tensor& Tensor::round_() const { return of_each("round_", *this, round); }
const Tensor& Tensor::trunc_() const { return of_each("trunc_", *this, trunc); }
const Tensor& Tensor::sign_() const { return of_each("sign_", *this, sign); }
const Tensor& Tensor::sin_() const { return of_each("sin_", *this, sin); }
const Tensor& Tensor::cos_() const { return of_each("cos_", *this, cos); }
const Tensor& Tensor::erf_() const { return of_each("erf_", *this, erf); }
const Tensor& Tensor::log1p_() const { return of_each("log1p_", *this, log1p); }
const Tensor& Tensor::expm1_() const { return of_each("expm1_", *this, expm1); }
const Tensor& Tensor::reciprocal_() const { return of_each("reciprocal_", *this, reciprocal); }
const Tensor& Tensor::rsqrt_() const { return of_each("rsqrt_", *this, rsqrt); }
const Tensor& Tensor::elu_(double alpha) const {
  return of_each("elu_", *this, [=](const Tensor& x) { return elu(x, alpha); });
}
const Tensor& Tensor::leaky_relu_(double slope) const {
  return of_each("leaky_relu_", *this, [=](const Tensor& x) { return leaky_relu(x, slope); });
}

}  // namespace reprise
