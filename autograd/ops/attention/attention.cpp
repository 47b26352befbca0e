// Attention as one operation: keeps q, k, v, the output and one log-sum-exp a row.
#include "reprise/autograd/ops/attention/attention_calls.h"

#include <cmath>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops/attention/attention_window.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/autograd/random_draw.h"
#include "reprise/kernels/elementwise/dropout.h"

namespace reprise {
namespace autograd {

kernels::AttentionOptions kernel_options(const char* op, const AttentionOptions& options) {
  check(options.dropout >= 0 && options.dropout < 1, op, ": dropout must be in [0, 1), got ",
        options.dropout);
  check(std::isfinite(options.scale), op, ": scale must be finite, got ", options.scale);
  Generator::State drawn;
  if (options.dropout > 0) drawn = random_draw(options.generator);
  return {options.causal, options.scale, options.dropout, drawn.seed, drawn.offset};
}

Tensor keep_mask(const Tensor& q, const Tensor& k, const kernels::AttentionOptions& options) {
  if (options.dropout == 0) return {};
  Tensor mask = ones({q.size(0), q.size(1), q.size(2), k.size(2)}, q.dtype(), q.device());
  kernels::dropout(current_stream(q.device()), mask, options.dropout, options.seed, options.offset, mask);
  return mask;
}

Tensor attention_forward(const AttentionInputs& in, const kernels::AttentionOptions& options, Tensor* lse) {
  const Tensor q = unit_stride(in.q), k = unit_stride(in.k), v = unit_stride(in.v);
  if (lse) *lse = Tensor::empty({q.size(0), q.size(1), q.size(2)}, statistics_dtype(q), q.device());
  Tensor out = Tensor::empty(q.shape(), q.dtype(), q.device());
  kernels::attention(current_stream(q.device()), {.q = q,
                                                  .k = k,
                                                  .v = v,
                                                  .options = options,
                                                  .out = out,
                                                  .lse = lse ? lse->view() : TensorView(),
                                                  .mask = in.mask});
  return out;
}

TensorList attention_gradients(const AttentionInputs& in, const kernels::AttentionOptions& options,
                               const Tensor& dout, const Tensor& out, const Tensor& lse) {
  const Tensor q = unit_stride(in.q), k = unit_stride(in.k), v = unit_stride(in.v);
  Tensor dq = raw_empty_like(q), dk = raw_empty_like(k), dv = raw_empty_like(v);
  kernels::attention_backward(current_stream(q.device()), {.dout = unit_stride(dout).view(),
                                                           .q = q,
                                                           .k = k,
                                                           .v = v,
                                                           .out = out,
                                                           .lse = lse,
                                                           .options = options,
                                                           .dq = dq,
                                                           .dk = dk,
                                                           .dv = dv,
                                                           .mask = in.mask});
  return {dq, dk, dv};
}

}  // namespace autograd

namespace {

using namespace autograd;

TensorList differentiable_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const kernels::AttentionOptions& options, const Tensor& dout) {
  Tensor mask = keep_mask(q, k, options);
  auto same = [&](const TensorList& in) {
    AttentionOptions plain{.causal = options.causal, .scale = options.scale};
    return TensorList{composite::attention(in[0], in[1], in[2], plain, mask)};
  };
  return composite_backward(same, {q, k, v}, {dout});
}

void check_heads(const Tensor& q, const Tensor& k, const Tensor& v) {
  check(q.rank() == 4 && k.rank() == 4 && v.shape() == k.shape() && q.size(0) == k.size(0) &&
            q.size(3) == k.size(3) && k.size(1) > 0 && q.size(1) % k.size(1) == 0,
        "attention: q ", q.shape(), ", k ", k.shape(), ", v ", v.shape(),
        " do not fit (B, H, T, D), (B, H_kv, S, D), (B, H_kv, S, D)");
  check_dtype(q, k, "attention");
  check_dtype(q, v, "attention");
  check_floating("attention", q);
  check_device("attention", q, k);
  check_device("attention", q, v);
}

struct Attention : Function<Attention> {
  static constexpr const char* name = "attention";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr OpCost cost{OpCost::Kind::attention, attention_sums};
  kernels::AttentionOptions options_;

  Tensor forward(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
    check_heads(q, k, v);
    options_ = kernel_options(name, options);
    Tensor lse, out = attention_forward({q, k, v}, options_, recording() ? &lse : nullptr);
    save(q, k, v, out, lse);
    return out;
  }

  TensorList backward(const TensorList& dout) {
    const Tensor q = saved(0), k = saved(1), v = saved(2);
    if (grad_mode_enabled()) return differentiable_backward(q, k, v, options_, dout[0]);
    return attention_gradients({q, k, v}, options_, dout[0], saved(3), saved(4));
  }
};

// One third of (B, T, 3 C) as (B, H, T, D).
TensorView third(const Tensor& qkv, int which, int64_t heads) {
  int64_t width = qkv.size(-1) / 3;
  Tensor split = raw_reshape(qkv, {qkv.size(0), qkv.size(1), 3, heads, width / heads});
  return transpose(select(split.view(), 2, which), 1, 2);  // (B, H, T, D)
}

// (B, T, C) as (B, H, T, D).
TensorView by_heads(const Tensor& x, int64_t heads) {
  return transpose(raw_reshape(x, {x.size(0), x.size(1), heads, x.size(2) / heads}).view(), 1, 2);
}

struct PackedAttention : Function<PackedAttention> {
  static constexpr const char* name = "packed_attention";
  static constexpr auto autocast = amp::Policy::low;
  static constexpr OpCost cost{OpCost::Kind::attention, [](const OpShapes& of) {
                                 const Shape& y = of.results[0];  // (B, T, C)
                                 return OpCost::Sums{.length = y[1], .channels = y[2]};
                               }};
  kernels::AttentionOptions options_;
  int64_t heads_ = 1;

  Tensor forward(const Tensor& packed, int64_t heads, const AttentionOptions& options) {
    check(packed.rank() == 3 && heads >= 1 && packed.size(2) % 3 == 0 && packed.size(2) / 3 % heads == 0,
          "packed_attention: ", packed.shape(), " is not (B, T, 3 C) with C a multiple of ", heads, " heads");
    check_floating(name, packed);
    options_ = kernel_options(name, options);
    heads_ = heads;
    Tensor qkv = packed.contiguous(), lse;
    int64_t batch = qkv.size(0), length = qkv.size(1);
    if (recording()) lse = Tensor::empty({batch, heads, length}, statistics_dtype(qkv), qkv.device());
    Tensor out = Tensor::empty({batch, length, qkv.size(2) / 3}, qkv.dtype(), qkv.device());
    kernels::attention(current_stream(qkv.device()), {.q = third(qkv, 0, heads),
                                                      .k = third(qkv, 1, heads),
                                                      .v = third(qkv, 2, heads),
                                                      .options = options_,
                                                      .out = by_heads(out, heads),
                                                      .lse = optional_view(lse)});
    save(packed, out, lse);
    return out;
  }

  TensorList backward(const TensorList& dout) {
    Tensor packed = saved(0);
    if (grad_mode_enabled()) return {differentiable(packed, dout[0])};
    Tensor qkv = packed.contiguous(), dqkv = raw_empty_like(qkv), dy = dout[0].contiguous();
    kernels::attention_backward(current_stream(qkv.device()), {.dout = by_heads(dy, heads_),
                                                               .q = third(qkv, 0, heads_),
                                                               .k = third(qkv, 1, heads_),
                                                               .v = third(qkv, 2, heads_),
                                                               .out = by_heads(saved(1), heads_),
                                                               .lse = saved(2).view(),
                                                               .options = options_,
                                                               .dq = third(dqkv, 0, heads_),
                                                               .dk = third(dqkv, 1, heads_),
                                                               .dv = third(dqkv, 2, heads_)});
    return {dqkv};
  }

  Tensor differentiable(const Tensor& packed, const Tensor& dout) const {
    int64_t batch = packed.size(0), length = packed.size(1), dim = packed.size(2) / (3 * heads_);
    Tensor split = reshape(packed, {batch, length, 3, heads_, dim});
    auto head_view = [&](int which) { return transpose(select(split, 2, which), 1, 2); };
    Tensor mask = keep_mask(head_view(0), head_view(1), options_);
    auto same = [&](const TensorList& in) {
      Tensor parts =
          permute(reshape(in[0], {batch, length, 3, heads_, dim}), {2, 0, 3, 1, 4});  // (3, B, H, T, D)
      AttentionOptions plain{.causal = options_.causal, .scale = options_.scale};
      Tensor out =
          composite::attention(select(parts, 0, 0), select(parts, 0, 1), select(parts, 0, 2), plain, mask);
      return TensorList{reshape(transpose(out, 1, 2), {batch, length, heads_ * dim})};
    };
    return composite_backward(same, {packed}, {dout})[0];
  }
};

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return Attention::apply(q, k, v, options);
}

Tensor packed_attention(const Tensor& qkv, int64_t heads, const AttentionOptions& options) {
  return PackedAttention::apply(qkv, heads, options);
}

namespace {

// Which keys a query of (T, S) sees.
Tensor causal_keys(int64_t queries, int64_t keys, Device device) {
  Tensor row = reshape(arange(queries, DType::i64, device), {queries, 1}),
         column = arange(keys, DType::i64, device);
  return less_equal(column, row + double(keys - queries));
}

Tensor attention_wide(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                      const Tensor& mask, const Tensor& keep, int64_t window) {
  int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), keys = k.size(2), dim = q.size(3);
  int64_t group = heads / k.size(1);
  auto repeat = [&](const Tensor& x) {  // (B, H_kv, S, D) -> (B, H, S, D)
    if (group == 1) return x;
    return reshape(expand(unsqueeze(x, 2), {batch, k.size(1), group, keys, dim}), {batch, heads, keys, dim});
  };
  auto constant = [&](double number) { return scalar(number, q.dtype(), q.device()); };
  double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(dim));
  Tensor scores = matmul(q, transpose(repeat(k), -2, -1)) * scale;  // (B, H, T, S)
  Tensor visible;                                                   // undefined: all
  auto hide = [&](const Tensor& seen) { visible = visible.defined() ? logical_and(visible, seen) : seen; };
  if (options.causal) hide(causal_keys(queries, keys, q.device()));
  const AttentionWindow near{window, queries, keys};
  if (near.hides(options.causal)) hide(near.matrix(q.device()));
  if (mask.defined()) {
    Tensor seen = mask;
    if (mask.dtype() != DType::boolean) {
      const Tensor numbers = cast(mask, q.dtype());
      seen = logical_not(less_equal(numbers, constant(kernels::highest_that_hides)));
      scores = scores + where(seen, numbers, constant(0));
    }
    hide(seen);
  }
  if (visible.defined()) scores = where(visible, scores, constant(-1e30));
  Tensor probabilities = keys > 0 ? composite::softmax(scores) : scores;
  // A row that sees no key, by a mask or where there are more queries than keys, is nothing and not the mean of all
  // values.
  if (mask.defined() || (keys < queries && visible.defined()))
    probabilities = where(visible, probabilities, constant(0));
  if (keep.defined()) probabilities = probabilities * keep;
  return matmul(probabilities, repeat(v));
}

}  // namespace

Tensor autograd::attention_composite(const Tensor& q, const Tensor& k, const Tensor& v,
                                     const AttentionOptions& options, const Tensor& mask, const Tensor& keep,
                                     int64_t window) {
  auto wide = [&](const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& added,
                  const Tensor& kept) {
    return attention_wide(queries, keys, values, options, added, kept, window);
  };
  return in_f32(wide, q, k, v, mask, keep);
}

Tensor composite::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionOptions& options, const Tensor& keep) {
  check_heads(q, k, v);
  return attention_composite(q, k, v, options, {}, keep);
}

}  // namespace reprise
