#include "reprise/autograd/ops/reduce/vector_norm.h"

#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/reduce/extremes.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

// |x|^exponent, and 0^0 = 0. The gradient is 0 at 0, where that of the power may be infinite.
Tensor power(const Tensor& x, double exponent) {
  auto number = [&](double value) { return scalar(value, x.dtype(), x.device()); };
  const Tensor is_zero = equal(x, number(0)), powers = pow(abs(where(is_zero, number(1), x)), exponent);
  return where(is_zero, scalar(exponent < 0 ? INFINITY : 0, powers.dtype(), x.device()), powers);
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
  autograd::check_floating(op, given);
  check(!std::isnan(order), op, ": the order is NaN");
  check((order >= 0 && std::isfinite(order)) || !reduces_nothing(op, given, dims), op, ": of order ", order,
        " of no elements, in shape ", given.shape());
  const bool is_autocast = amp::autocast_dtype(given.device()).has_value();
  auto wide = [&](const Tensor& x) {
    const DType dtype = is_autocast ? autograd::statistics_dtype(x) : x.dtype();
    if (std::isinf(order))
      return order > 0 ? autograd::max_in(dtype, abs(x), dims, keep_dims)
                       : autograd::min_in(dtype, abs(x), dims, keep_dims);
    if (order == 1) return sum(abs(x), dims, keep_dims);
    if (order == 2) return norm(x, dims, keep_dims);
    const Tensor powers = sum(power(x, order), dims, keep_dims);
    return order == 0 ? powers : power(powers, 1 / order);
  };
  return is_autocast ? wide(given) : autograd::in_f32(wide, given);
}

}  // namespace reprise
