#include "reprise/autograd/ops/attention/masked_attention.h"

#include <algorithm>
#include <cstdint>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops/attention/attention_calls.h"
#include "reprise/autograd/ops/attention/attention_window.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

Shape scores_shape(const Tensor& q, const Tensor& k) { return {q.size(0), q.size(1), q.size(2), k.size(2)}; }

void check_arguments(const char* op, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) {
  check(q.rank() == 4 && k.rank() == 4 && k.shape() == v.shape(), op,
        ": needs q (B, H, T, D) and k, v (B, H_kv, S, D), got ", q.shape(), ", ", k.shape(), " and ",
        v.shape());
  check(q.size(0) == k.size(0) && q.size(3) == k.size(3) && k.size(1) > 0 && q.size(1) % k.size(1) == 0, op,
        ": q ", q.shape(), " does not fit k and v ", k.shape());
  check_floating(op, q);
  for (const Tensor* x : {&k, &v}) check_dtype(q, *x, op), check_device(op, q, *x);
  if (!mask.defined()) return;
  check_device(op, q, mask);
  check(mask.dtype() == DType::boolean || is_floating(mask.dtype()), op,
        ": the mask must be bool or floating, got ", mask.dtype());
  const Shape scores = scores_shape(q, k);
  check(broadcast_shapes(mask.shape(), scores, op) == scores, op, ": the mask ", mask.shape(),
        " does not broadcast to ", scores);
}

AttentionWindow window_of(int64_t size, const Tensor& q, const Tensor& k) {
  return {size, q.size(2), k.size(2)};
}

// In a dtype that the kernels take: its own if they do, else that in which they add it.
KernelMask for_kernels(const Tensor& mask, const AttentionWindow& window, bool causal, const Tensor& q,
                       const Tensor& k) {
  const Shape scores = scores_shape(q, k);
  if (!mask.defined()) return window_mask(window, scores, q.device());
  const bool takes = mask.dtype() == DType::boolean || mask.dtype() == q.dtype();
  const Tensor taken = takes ? mask : converted(mask, statistics_dtype(q));
  if (window.hides(causal)) return mask_in_window(taken, window, scores);
  return {taken, expand(taken.view(), scores)};
}

struct MaskedAttention : Function<MaskedAttention> {
  static constexpr const char* name = "masked_attention";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr uint32_t autocast_keeps = 0b1000;  // the mask: the kernels add it in f32
  static OpCost cost_of(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        const MaskedAttentionOptions& o) {
    return {.kind = OpCost::Kind::attention,
            .sums = attention_sums,
            .most_keys = o.window > 0 && !o.causal ? 2 * std::min(o.window, INT64_MAX / 2) - 1 : o.window};
  }
  kernels::AttentionOptions options_;
  int64_t window_ = 0;

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                 const MaskedAttentionOptions& options) {
    check_arguments(name, q, k, v, mask);
    options_ = kernel_options(name, {options.causal, options.scale, options.dropout, options.generator});
    window_ = options.window;
    const KernelMask taken = for_kernels(mask, window_of(window_, q, k), options_.causal, q, k);
    Tensor lse, out = attention_forward({q, k, v, taken.view}, options_, recording() ? &lse : nullptr);
    save(q, k, v, mask, out, lse);
    return out;
  }

  TensorList backward(const TensorList& dout) {
    const Tensor q = saved(0), k = saved(1), v = saved(2), mask = saved(3);
    if (grad_mode_enabled()) return by_composite(q, k, v, mask, dout[0]);
    const KernelMask taken = for_kernels(mask, window_of(window_, q, k), options_.causal, q, k);
    TensorList grads = attention_gradients({q, k, v, taken.view}, options_, dout[0], saved(4), saved(5));
    grads.push_back(needs_grad(3) ? mask_gradient(q, k, v, mask, dout[0]) : Tensor());
    return grads;
  }

 private:
  TensorList by_composite(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                          const Tensor& dout) const {
    const Tensor keep = keep_mask(q, k, options_);
    auto same = [&](const TensorList& in) {
      const AttentionOptions plain{.causal = options_.causal, .scale = options_.scale};
      return TensorList{attention_composite(in[0], in[1], in[2], plain, in[3], keep, window_)};
    };
    return composite_backward(same, {q, k, v, mask}, {dout});
  }

  // Of a mask that is trained: the scores (T, S) exist while this runs.
  Tensor mask_gradient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                       const Tensor& dout) const {
    const Tensor leaf = mask.detach().set_requires_grad();
    return by_composite(q.detach(), k.detach(), v.detach(), leaf, dout.detach())[3].detach();
  }
};

}  // namespace

Tensor masked_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                        const MaskedAttentionOptions& options) {
  const char* name = MaskedAttention::name;
  check(options.window >= 0, name, ": window must be at least 0, got ", options.window);
  check_given(name, q, k, v);
  const bool can_hide = q.rank() == 4 && k.rank() == 4;  // else the shapes are refused by either
  if (!mask.defined() && !(can_hide && window_of(options.window, q, k).hides(options.causal)))
    return attention(q, k, v, {options.causal, options.scale, options.dropout, options.generator});
  return MaskedAttention::apply(q, k, v, mask, options);
}

}  // namespace reprise
