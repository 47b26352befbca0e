#include "reprise/autograd/ops/reduce/var.h"

#include <algorithm>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/read_wide.h"
#include "reprise/autograd/ops/reduce/wide_variance.h"

namespace reprise {

Tensor var(const Tensor& x, const Dims& dims, int64_t correction, bool keep_dims) {
  constexpr auto op = "var";
  autograd::check_given(op, x);
  autograd::check_floating(op, x);
  auto wide = [&](const Tensor& w) { return autograd::wide_var(op, w, dims, correction, keep_dims); };
  return cast(autograd::reading_wide(wide, x), x.dtype());
}

Tensor autograd::wide_var(const char* op, const Tensor& x, const Dims& dims, int64_t correction,
                          bool keep_dims) {
  const Tensor biased = wide_variance(op, x, dims, keep_dims);
  const double count = double(x.numel()) / double(std::max<int64_t>(1, biased.numel()));
  return biased * (count / std::max(count - double(correction), 0.0));
}

}  // namespace reprise
