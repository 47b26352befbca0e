// Norms and log-sum-exp over dimensions, from sums.
#include <cmath>

#include "reprise/autograd/cast_seam.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/reduce/var.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

Tensor like(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }

// sqrt(x), with the gradient 0 at 0, as PyTorch has it for norms.
Tensor root(const Tensor& x) {
  const Tensor is_zero = equal(x, like(x, 0));
  return where(is_zero, like(x, 0), sqrt(where(is_zero, like(x, 1), x)));
}

}  // namespace

Tensor norm(const Tensor& given, const Dims& dims, bool keep_dims) {
  autograd::check_given("norm", given);
  const autograd::CastArguments in(amp::Policy::f32, given);
  autograd::check_floating("norm", in[0]);
  auto wide = [&](const Tensor& x) { return root(sum(square(x), dims, keep_dims)); };
  return autograd::in_f32(wide, in[0]);
}

Tensor stddev(const Tensor& given, const Dims& dims, int64_t correction, bool keep_dims) {
  autograd::check_given("stddev", given);
  autograd::check_floating("stddev", given);
  auto wide = [&](const Tensor& x) { return root(var(x, dims, correction, keep_dims)); };
  return autograd::in_f32(wide, given);
}

Tensor logsumexp(const Tensor& given, const Dims& dims, bool keep_dims) {
  autograd::check_given("logsumexp", given);
  const autograd::CastArguments in(amp::Policy::f32, autograd::with_fractions(given));
  auto wide = [&](const Tensor& x) {
    if (x.numel() == 0) return log(sum(exp(x), dims, keep_dims));  // of no numbers -inf
    Tensor largest;
    {
      NoGrad guard;
      largest = max(x.detach(), dims, true);
      // An infinity is not subtracted from itself.
      largest = where(less(abs(largest), like(largest, INFINITY)), largest, like(largest, 0));
    }
    const Tensor y = log(sum(exp(x - largest), dims, true)) + largest;
    return keep_dims ? y : sum(y, dims, false);
  };
  return autograd::in_f32(wide, in[0]);
}

}  // namespace reprise
