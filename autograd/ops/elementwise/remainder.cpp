#include "reprise/autograd/ops/elementwise/remainder.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise_table.h"

namespace reprise {
namespace {

using kernels::BinaryOp;

// floor(a / b). A quotient that is rounded may be the next whole number: what fmod leaves tells.
Tensor floor_quotient(const Tensor& a, const Tensor& b) {
  const Tensor rest = fmod(a, b), zero = scalar(0, a.dtype(), a.device());
  const Tensor is_above = not_equal(rest, zero) & not_equal(less(rest, zero), less(b, zero));
  const Tensor towards_zero = round((a - rest) / b);
  return where(equal(b, zero), a / b, where(is_above, towards_zero - 1.0, towards_zero));
}

template <BinaryOp op>
struct Rest : autograd::Function<Rest<op>> {
  static constexpr const char* name = kernels::name_of(op);
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  Shape of_a, of_b;

  Tensor forward(const Tensor& a, const Tensor& b) {
    autograd::check_device(name, a, b);
    check(a.dtype() != DType::boolean, name, ": needs numbers, got bool");
    check(is_floating(b.dtype()) || !any(equal(b, scalar(0, b.dtype(), b.device()))), name,
          ": division of integers by 0");
    of_a = a.shape(), of_b = b.shape();
    this->save(a, b);
    const Shape shape = broadcast_shapes(of_a, of_b, name);
    Tensor y = Tensor::empty(shape, a.dtype(), a.device());
    kernels::binary(current_stream(a.device()), op, expand(a.view(), shape), expand(b.view(), shape), y);
    return y;
  }
  TensorList backward(const TensorList& dy) {
    Tensor db;
    if (this->needs_grad(1)) {
      // The quotient has no gradient of its own: it is a step.
      auto wide = [](const Tensor& d, const Tensor& a, const Tensor& b) {
        const Tensor x = a.detach(), y = b.detach();
        return -d * (op == BinaryOp::remainder ? floor_quotient(x, y) : trunc(x / y));
      };
      db = sum_to(autograd::in_f32(wide, dy[0], this->saved(0), this->saved(1)), of_b);
    }
    return {this->needs_grad(0) ? sum_to(dy[0], of_a) : Tensor(), db};
  }
};

template <BinaryOp op>
Tensor rest_of(const Tensor& a, const Tensor& b) {
  autograd::check_given(kernels::name_of(op), a, b);
  const DType dtype = promote(a.dtype(), b.dtype());
  return Rest<op>::apply(cast(a, dtype), cast(b, dtype));
}

template <BinaryOp op>
Tensor rest_of(const Tensor& a, double b) {
  autograd::check_given(kernels::name_of(op), a);
  return rest_of<op>(
      a, scalar(autograd::whole_number(kernels::name_of(op), b, a.dtype()), a.dtype(), a.device()));
}

}  // namespace

Tensor remainder(const Tensor& a, const Tensor& b) { return rest_of<BinaryOp::remainder>(a, b); }
Tensor remainder(const Tensor& a, double b) { return rest_of<BinaryOp::remainder>(a, b); }
Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
Tensor operator%(const Tensor& a, double b) { return remainder(a, b); }
Tensor operator%(double a, const Tensor& b) {
  autograd::check_given("remainder", b);
  return remainder(scalar(autograd::whole_number("remainder", a, b.dtype()), b.dtype(), b.device()), b);
}

Tensor fmod(const Tensor& a, const Tensor& b) { return rest_of<BinaryOp::fmod>(a, b); }
Tensor fmod(const Tensor& a, double b) { return rest_of<BinaryOp::fmod>(a, b); }

}  // namespace reprise
