#include "reprise/autograd/ops/attention/masked_attention.h"

#include <cmath>
#include <limits>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/given.h"

namespace reprise {
namespace {

constexpr auto op = "masked_attention";
constexpr double inf = std::numeric_limits<double>::infinity();

// (B, H_kv, S, D) -> (B, H, S, D): each head for its group of queries' heads.
Tensor for_heads(const Tensor& x, int64_t heads) {
  const int64_t kv_heads = x.size(1), group = heads / kv_heads;
  if (group == 1) return x;
  const Shape grouped{x.size(0), kv_heads, group, x.size(2), x.size(3)};
  return reshape(expand(unsqueeze(x, 2), grouped), {x.size(0), heads, x.size(2), x.size(3)});
}

void check_arguments(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  autograd::check_given(op, q, k, v, mask);
  check(q.rank() == 4 && k.rank() == 4 && k.shape() == v.shape(), op,
        ": needs q (B, H, T, D) and k, v (B, H_kv, S, D), got ", q.shape(), ", ", k.shape(), " and ",
        v.shape());
  check(q.size(0) == k.size(0) && q.size(3) == k.size(3) && k.size(1) > 0 && q.size(1) % k.size(1) == 0, op,
        ": q ", q.shape(), " does not fit k and v ", k.shape());
  check(mask.dtype() == DType::boolean || is_floating(mask.dtype()), op,
        ": the mask must be bool or floating, got ", mask.dtype());
  const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  check(broadcast_shapes(mask.shape(), scores, op) == scores, op, ": the mask ", mask.shape(),
        " does not broadcast to ", scores);
}

// Whether a query sees a key at all, with size 1 in the last dimension.
Tensor sees_any(const Tensor& mask) {
  NoGrad guard;
  return any(mask.dtype() == DType::boolean ? mask : mask > -inf, {-1}, true);
}

}  // namespace

Tensor masked_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        const MaskedAttentionOptions& options) {
  check_arguments(q, k, v, mask);
  check(options.dropout >= 0 && options.dropout < 1, "masked_attention: dropout must be in [0, 1), got ",
        options.dropout);
  const double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(q.size(3)));
  const int64_t heads = q.size(1);
  Tensor scores = matmul(q * scale, transpose(for_heads(k, heads), 2, 3));
  auto constant = [&](double value) { return scalar(value, scores.dtype(), scores.device()); };
  scores =
      mask.dtype() == DType::boolean ? where(mask, scores, constant(-inf)) : scores + mask.to(scores.dtype());
  // A row of -inf has no softmax: such a row goes around it.
  const Tensor seen = sees_any(mask);
  Tensor p = softmax(where(seen, scores, constant(0)));
  p = where(seen, p, scalar(0, p.dtype(), p.device()));
  if (options.dropout > 0) p = dropout(p, options.dropout, options.generator);
  return matmul(p.to(v.dtype()), for_heads(v, heads));
}

}  // namespace reprise
