#include "reprise/autograd/ops/reduce/var.h"

#include <algorithm>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {

Tensor var(const Tensor& given, const Dims& dims, int64_t correction, bool keep_dims) {
  autograd::check_given("var", given);
  autograd::check_floating("var", given);
  auto wide = [&](const Tensor& x) {
    const Tensor biased = variance(x, dims, keep_dims);
    const double count = double(x.numel()) / double(std::max<int64_t>(1, biased.numel()));
    return biased * (count / std::max(count - double(correction), 0.0));
  };
  return autograd::in_f32(wide, given);
}

}  // namespace reprise
