// Numbers held between two bounds, or on one side of one; all are NaN where a bound is.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/into.h"
#include "reprise/autograd/ops/number.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

using kernels::BinaryOp;

Tensor bound(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }

struct Clamp : autograd::Function<Clamp> {
  static constexpr const char* name = "clamp";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::pointwise();
  std::optional<double> low_{}, high_{};

  Tensor forward(const Tensor& x, std::optional<double> low, std::optional<double> high) {
    low_ = low;
    high_ = high;
    Tensor y = autograd::raw_empty_like(x);
    autograd::clamp_into(x, low, high, y);
    save(x);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    const Tensor x = saved(0), zero = bound(x, 0);
    Tensor dx = dy[0];
    if (high_) dx = where(less_equal(x, bound(x, *high_)), dx, zero);
    if (low_) dx = where(greater_equal(x, bound(x, *low_)), dx, zero);
    return {dx};
  }
};

}  // namespace

void autograd::clamp_into(const Tensor& x, std::optional<double> low, std::optional<double> high,
                          const Tensor& y) {
  const char* name = Clamp::name;
  check(low || high, name, ": neither of the bounds is given");
  for (const auto& each : {low, high})
    if (each) element(name, *each, x.dtype());
  const Tensor least = low ? bound(x, *low) : Tensor(), most = high ? bound(x, *high) : Tensor();
  auto limit = [&](BinaryOp op, const Tensor& from, const Tensor& other) {
    kernels::binary(current_stream(x.device()), op, from, expand(other.view(), x.shape()), y);
  };
  if (low) limit(BinaryOp::maximum, x, least);
  if (high) limit(BinaryOp::minimum, low ? y : x, most);
}

Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  return Clamp::apply(x, low, high);
}

}  // namespace reprise
