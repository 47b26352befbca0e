#include "reprise/autograd/ops/reduce/similarity.h"

#include "reprise/autograd/cast_seam.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/numbers.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/reduce/vector_norm.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

void check_arguments(const char* op, const Tensor& x, double eps) {
  autograd::check_given(op, x);
  autograd::check_floating(op, x);
  check(eps >= 0, op, ": eps must be at least 0, got ", eps);
}

}  // namespace

Tensor normalize(const Tensor& x, int64_t dim, double order, double eps) {
  check_arguments("normalize", x, eps);
  const autograd::CastArguments in(amp::Policy::f32, x);
  auto wide = [&](const Tensor& w) { return w / maximum(vector_norm(w, order, {dim}, true), eps); };
  return autograd::in_f32(wide, in[0]);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, int64_t dim, double eps) {
  constexpr auto op = "cosine_similarity";
  for (const Tensor* x : {&a, &b}) check_arguments(op, *x, eps);
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), op);
  const autograd::CastArguments in(amp::Policy::f32, a, b);
  auto wide = [&](const Tensor& x, const Tensor& y) {
    return sum(normalize(expand(x, shape), dim, 2, eps) * normalize(expand(y, shape), dim, 2, eps), {dim});
  };
  return cast(wide(autograd::widened(in[0]), autograd::widened(in[1])),
              promote(in[0].dtype(), in[1].dtype()));
}

}  // namespace reprise
