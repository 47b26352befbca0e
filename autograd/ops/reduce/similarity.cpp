#include "reprise/autograd/ops/reduce/similarity.h"

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/numbers.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/read_wide.h"
#include "reprise/autograd/ops/reduce/vector_norm.h"

namespace reprise {
namespace {

void check_arguments(const char* op, const Tensor& x, double eps) {
  autograd::check_given(op, x);
  autograd::check_floating(op, x);
  check(eps >= 0, op, ": eps must be at least 0, got ", eps);
}

// x / max(norm, eps), of 16 bits in f32. Those of other orders go through operations that would round.
Tensor wide_normalized(const Tensor& x, int64_t dim, double order, double eps) {
  auto wide = [&](const Tensor& w) { return w / maximum(vector_norm(w, order, {dim}, true), eps); };
  return order == 2 ? autograd::reading_wide(wide, x) : wide(autograd::widened(x));
}

DType result_dtype(DType dtype, Device device) {
  return autograd::is_half(dtype) && amp::autocast_dtype(device) ? DType::f32 : dtype;
}

}  // namespace

Tensor normalize(const Tensor& x, int64_t dim, double order, double eps) {
  check_arguments("normalize", x, eps);
  return cast(wide_normalized(x, dim, order, eps), result_dtype(x.dtype(), x.device()));
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  constexpr auto op = "cosine_similarity";
  for (const Tensor* x : {&a, &b}) check_arguments(op, *x, eps);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  // The gradient of one that is repeated is a sum in f32.
  auto unit = [&](const Tensor& x) {
    const Tensor repeated = x.shape() == shape ? x : expand(autograd::widened(x), shape);
    return wide_normalized(repeated, dim, 2, eps);
  };
  const DType dtype = result_dtype(promote(a.dtype(), b.dtype()), a.device());
  return cast(sum(unit(a) * unit(b), {dim}), dtype);
}

}  // namespace reprise
