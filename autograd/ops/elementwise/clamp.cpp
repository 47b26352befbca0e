// Numbers held between two bounds, or on one side of one.
#include <cmath>

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
  std::optional<double> low_{}, high_{};

  Tensor forward(const Tensor& x, std::optional<double> low, std::optional<double> high) {
    check(low || high, name, ": neither of the bounds is given");
    for (const auto& each : {low, high}) {
      check(!each || !std::isnan(*each), name, ": a bound is nan");
      if (each) autograd::element(name, *each, x.dtype());
    }
    low_ = low;
    high_ = high;
    save(x);
    Tensor y = autograd::raw_empty_like(x);
    if (low) limit(BinaryOp::maximum, x, *low, y);
    if (high) limit(BinaryOp::minimum, low ? y : x, *high, y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    const Tensor x = saved(0), zero = bound(x, 0);
    Tensor dx = dy[0];
    if (high_) dx = where(less_equal(x, bound(x, *high_)), dx, zero);
    if (low_) dx = where(greater_equal(x, bound(x, *low_)), dx, zero);
    return {dx};
  }

 private:
  static Tensor bound(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }
  static void limit(BinaryOp op, const Tensor& x, double value, const Tensor& y) {
    Tensor other = bound(x, value);
    kernels::binary(current_stream(x.device()), op, x, expand(other.view(), x.shape()), y);
  }
};

}  // namespace

Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  return Clamp::apply(x, low, high);
}

}  // namespace reprise
