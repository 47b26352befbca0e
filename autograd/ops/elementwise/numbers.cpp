#include "reprise/autograd/ops/elementwise/numbers.h"

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/remainder.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/number.h"

namespace reprise {
namespace {

// The number as a tensor, of the dtype of x.
Tensor beside(const char* op, const Tensor& x, double number) {
  autograd::check_given(op, x);
  const DType dtype = x.dtype();
  check(dtype != DType::boolean || number == 0 || number == 1, op, ": ", number, " does not fit bool");
  return scalar(autograd::element(op, number, dtype), dtype, x.device());
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, double b) {
  return where(condition, a, beside("where", a, b));
}
Tensor where(const Tensor& condition, double a, const Tensor& b) {
  return where(condition, beside("where", b, a), b);
}
Tensor where(const Tensor& condition, double a, double b) {
  autograd::check_given("where", condition);
  return where(condition, scalar(a, DType::f32, condition.device()), b);
}

Tensor maximum(const Tensor& x, double number) { return maximum(x, beside("maximum", x, number)); }
Tensor maximum(double number, const Tensor& x) { return maximum(x, number); }
Tensor minimum(const Tensor& x, double number) { return minimum(x, beside("minimum", x, number)); }
Tensor minimum(double number, const Tensor& x) { return minimum(x, number); }

Tensor equal(const Tensor& x, double number) { return x == number; }
Tensor not_equal(const Tensor& x, double number) { return x != number; }
Tensor less(const Tensor& x, double number) { return x < number; }
Tensor less_equal(const Tensor& x, double number) { return x <= number; }
Tensor greater(const Tensor& x, double number) { return x > number; }
Tensor greater_equal(const Tensor& x, double number) { return x >= number; }

Tensor remainder(double a, const Tensor& b) { return a % b; }
Tensor fmod(double a, const Tensor& b) { return fmod(beside("fmod", b, a), b); }

Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value) {
  constexpr auto op = "masked_fill";
  autograd::check_given(op, x, mask, value);
  check(value.numel() == 1, op, ": the value must have one element, got ", value.shape());
  check(is_floating(x.dtype()) || !is_floating(value.dtype()), op, ": a value of ", value.dtype(),
        " does not fit in ", x.dtype());
  broadcast_shapes(x.shape(), mask.shape(), op);  // an Error by its own name
  return where(mask, reshape(cast(value, x.dtype()), {}), x);
}

}  // namespace reprise
