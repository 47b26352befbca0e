#include "reprise/autograd/ops/elementwise/bounds.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

using kernels::BinaryOp;

struct ClampByTensors : autograd::Function<ClampByTensors> {
  static constexpr const char* name = "clamp";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  Shape of_x_, of_low_, of_high_;

  Tensor forward(const Tensor& x, const Tensor& low, const Tensor& high) {
    Shape shape = of_x_ = x.shape();
    if (low.defined()) shape = broadcast_shapes(shape, of_low_ = low.shape(), name);
    if (high.defined()) shape = broadcast_shapes(shape, of_high_ = high.shape(), name);
    save(x, low, high);
    Tensor y = Tensor::empty(shape, x.dtype(), x.device());
    auto limit = [&](BinaryOp op, const Tensor& from, const Tensor& bound) {
      kernels::binary(current_stream(x.device()), op, reprise::expand(from.view(), shape),
                      reprise::expand(bound.view(), shape), y);
    };
    if (low.defined()) limit(BinaryOp::maximum, x, low);
    if (high.defined()) limit(BinaryOp::minimum, low.defined() ? y : x, high);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    const Tensor x = saved(0), low = saved(1), high = saved(2);
    const Tensor all = scalar(1, DType::boolean, x.device()), zero = scalar(0, dy[0].dtype(), x.device());
    auto share = [&](const Tensor& where_it_goes, const Shape& shape) {
      return sum_to(where(where_it_goes, dy[0], zero), shape);
    };
    Tensor dx, dlow, dhigh;
    if (needs_grad(0))
      dx = share((low.defined() ? x >= low : all) & (high.defined() ? x <= high : all), of_x_);
    if (needs_grad(1)) dlow = share((x < low) & (high.defined() ? low < high : all), of_low_);
    if (needs_grad(2)) dhigh = share(low.defined() ? (x > high) | (high < low) : x > high, of_high_);
    return {dx, dlow, dhigh};
  }
};

}  // namespace

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  constexpr auto op = ClampByTensors::name;
  autograd::check_given(op, x);
  check(low.defined() || high.defined(), op, ": neither of the bounds is given");
  DType dtype = x.dtype();
  for (const Tensor* bound : {&low, &high}) {
    autograd::check_device(op, x, *bound);
    if (bound->defined()) dtype = promote(dtype, bound->dtype());
  }
  auto in = [&](const Tensor& part) { return part.defined() ? cast(part, dtype) : part; };
  return ClampByTensors::apply(in(x), in(low), in(high));
}

}  // namespace reprise
