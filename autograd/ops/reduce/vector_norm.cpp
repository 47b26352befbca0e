#include "reprise/autograd/ops/reduce/vector_norm.h"

#include <cmath>

#include "reprise/autograd/cast_seam.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

// |x|^exponent, and 0^0 = 0. The gradient is 0 at 0, where that of the power may be infinite.
Tensor power(const Tensor& x, double exponent) {
  auto number = [&](double value) { return scalar(value, x.dtype(), x.device()); };
  const Tensor is_zero = equal(x, number(0));
  return where(is_zero, number(exponent < 0 ? INFINITY : 0),
               pow(abs(where(is_zero, number(1), x)), exponent));
}

// Whether each result is one of no elements.
bool reduces_nothing(const char* op, const Tensor& x, const Dims& dims) {
  const unsigned over = dims.empty() ? ~0u : dims_mask(dims, x.rank(), op);
  bool nothing = false;
  for (int d = 0; d < x.rank(); ++d) nothing |= (over >> d & 1) && x.size(d) == 0;
  return nothing;
}

}  // namespace

Tensor vector_norm(const Tensor& given, double order, const Dims& dims, bool keep_dims) {
  constexpr auto op = "vector_norm";
  autograd::check_given(op, given);
  const autograd::CastArguments in(amp::Policy::f32, given);
  autograd::check_floating(op, in[0]);
  check(!std::isnan(order), op, ": the order is NaN");
  check((order >= 0 && std::isfinite(order)) || !reduces_nothing(op, given, dims), op, ": of order ", order,
        " of no elements, in shape ", given.shape());
  auto wide = [&](const Tensor& x) {
    if (std::isinf(order)) return order > 0 ? max(abs(x), dims, keep_dims) : min(abs(x), dims, keep_dims);
    if (order == 1) return sum(abs(x), dims, keep_dims);
    if (order == 2) return norm(x, dims, keep_dims);
    const Tensor powers = sum(power(x, order), dims, keep_dims);
    return order == 0 ? powers : power(powers, 1 / order);
  };
  return autograd::in_f32(wide, in[0]);
}

}  // namespace reprise
