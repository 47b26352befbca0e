// Tensor's operations in place with an operand, a number or a tensor, that are more than arithmetic: powers, remainders, masks and
// interpolation.
#include <cmath>

#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/numbers.h"
#include "reprise/autograd/ops/elementwise/powers.h"
#include "reprise/autograd/ops/elementwise/remainder.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/in_place/change.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

// f(x), of x and `other`.
template <class F>
const Tensor& with_tensor(const char* op, const Tensor& x, const Tensor& other, const F& f) {
  check_self(x, op);
  check_source(other, x, op);
  check_meets(op, x, other);
  return by_value(op, x, TensorList{other}, f);
}

}  // namespace

const Tensor& Tensor::pow_(const Tensor& exponent) const {
  return with_tensor("pow_", *this, exponent, [&](const Tensor& x) { return pow(x, exponent); });
}
const Tensor& Tensor::remainder_(double divisor) const {
  return of_itself("remainder_", *this, [=](const Tensor& x) { return remainder(x, divisor); });
}
const Tensor& Tensor::remainder_(const Tensor& divisor) const {
  return with_tensor("remainder_", *this, divisor, [&](const Tensor& x) { return remainder(x, divisor); });
}
const Tensor& Tensor::fmod_(double divisor) const {
  return of_itself("fmod_", *this, [=](const Tensor& x) { return fmod(x, divisor); });
}
const Tensor& Tensor::fmod_(const Tensor& divisor) const {
  return with_tensor("fmod_", *this, divisor, [&](const Tensor& x) { return fmod(x, divisor); });
}

const Tensor& Tensor::masked_fill_(const Tensor& mask, const Tensor& value) const {
  constexpr auto op = "masked_fill_";
  check_self(*this, op);
  check_source(mask, *this, op);
  check(value.defined(), op, ": the value is undefined: a tensor that was never given a value");
  auto fill = [&](const Tensor& x) { return masked_fill(x, mask, value); };
  return put_value(op, *this, TensorList{mask, value}, fill);
}

const Tensor& Tensor::lerp_(const Tensor& end, const Tensor& weight) const {
  constexpr auto op = "lerp_";
  check_self(*this, op);
  check_floating(op, *this);
  for (const Tensor* source : {&end, &weight}) check_source(*source, *this, op);
  // From the nearer end, as PyTorch: a weight of 1 gives it exactly.
  auto between = [](const Tensor& x, const Tensor& to, const Tensor& by) {
    return where(abs(by) < 0.5, x + (to - x) * by, to - (to - x) * (1.0 - by));
  };
  return by_value(op, *this, TensorList{end, weight}, [&](const Tensor& x) {
    const DType meets = common_dtype(x, end, weight);
    return between(cast(x, meets), cast(end, meets), cast(weight, meets));
  });
}

}  // namespace reprise
