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

// x / max(norm, eps), of x repeated to `shape`, of 16 bits in f32.
Tensor wide_normalized(const Tensor& x, const Shape& shape, int64_t dim, double eps) {
  auto wide = [&](const Tensor& w) { return w / maximum(vector_norm(w, 2, {dim}, true), eps); };
  return autograd::reading_wide(wide, x, shape);
}

DType result_dtype(DType dtype, Device device) {
  return autograd::is_half(dtype) && amp::autocast_dtype(device) ? DType::f32 : dtype;
}

}  // namespace

Tensor normalize(const Tensor& x, int64_t dim, double order, double eps) {
  check_arguments("normalize", x, eps);
  auto wide = [&](const Tensor& w) { return w / maximum(vector_norm(w, order, {dim}, true), eps); };
  // Norms of other orders go through operations that would round.
  const Tensor y = order == 2 ? wide_normalized(x, x.shape(), dim, eps) : wide(autograd::widened(x));
  return cast(y, result_dtype(x.dtype(), x.device()));
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  constexpr auto op = "cosine_similarity";
  for (const Tensor* x : {&a, &b}) check_arguments(op, *x, eps);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  auto unit = [&](const Tensor& x) { return wide_normalized(x, shape, dim, eps); };
  const DType dtype = result_dtype(promote(a.dtype(), b.dtype()), a.device());
  return cast(sum(unit(a) * unit(b), {dim}), dtype);
}

}  // namespace reprise
