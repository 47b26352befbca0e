// Numbers held between two bounds.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

using kernels::BinaryOp;

struct Clamp : autograd::Function<Clamp> {
  static constexpr const char* name = "clamp";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  double low_ = 0, high_ = 0;

  Tensor forward(const Tensor& x, double low, double high) {
    check(low <= high, "clamp: the bounds are ", low, " and ", high);
    low_ = autograd::element(name, low, x.dtype());
    high_ = autograd::element(name, high, x.dtype());
    save(x);
    Tensor y = autograd::empty_like(x);
    limit(BinaryOp::maximum, x, low_, y);
    limit(BinaryOp::minimum, y, high_, y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor x = saved(0), zero = bound(x, 0);
    Tensor below_high = where(less_equal(x, bound(x, high_)), dy[0], zero);
    return {where(greater_equal(x, bound(x, low_)), below_high, zero)};
  }

 private:
  static Tensor bound(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }
  static void limit(BinaryOp op, const Tensor& x, double value, const Tensor& y) {
    Tensor other = bound(x, value);
    kernels::binary(current_stream(x.device()), op, x, expand(other.view(), x.shape()), y);
  }
};

}  // namespace

Tensor clamp(const Tensor& x, double low, double high) { return Clamp::apply(x, low, high); }

}  // namespace reprise
