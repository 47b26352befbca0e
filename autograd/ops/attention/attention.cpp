// Attention as one operation: keeps q, k, v, the output and one log-sum-exp a row.
#include "reprise/kernels/attention/attention.h"

#include <cmath>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/autograd/random_draw.h"
#include "reprise/kernels/elementwise/dropout.h"

namespace reprise {
namespace {

using namespace autograd;

kernels::AttentionOptions kernel_options(const AttentionOptions& options) {
  check(options.dropout >= 0 && options.dropout < 1, "attention: dropout must be in [0, 1), got ",
        options.dropout);
  Generator::State drawn;
  if (options.dropout > 0) drawn = random_draw(options.generator);
  return {options.causal, options.scale, options.dropout, drawn.seed, drawn.offset};
}

// The mask that the kernels' dropout multiplied the probabilities (B, H, T, S) by.
Tensor keep_mask(const Tensor& q, const Tensor& k, const kernels::AttentionOptions& options) {
  if (options.dropout == 0) return {};
  Tensor mask = ones({q.size(0), q.size(1), q.size(2), k.size(2)}, q.dtype(), q.device());
  kernels::dropout(current_stream(q.device()), mask, options.dropout, options.seed, options.offset, mask);
  return mask;
}

TensorList differentiable_backward(const Tensor& q, const Tensor& k, const Tensor& v,
                                   const kernels::AttentionOptions& options, const Tensor& dout) {
  Tensor mask = keep_mask(q, k, options);
  auto same = [&](const TensorList& in) {
    AttentionOptions plain{.causal = options.causal, .scale = options.scale};
    return TensorList{composite::attention(in[0], in[1], in[2], plain, mask)};
  };
  return composite_backward(same, {q, k, v}, {dout});
}

Tensor lse_for(const Tensor& q) {
  return Tensor::empty({q.size(0), q.size(1), q.size(2)}, statistics_dtype(q), q.device());
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
  static constexpr OpCost cost{OpCost::Kind::attention, [](const OpShapes& of) {
                                 const Shape &k = of.inputs[1],
                                             &y = of.results[0];  // (B, H, S, D), (B, H, T, D)
                                 return OpCost::Sums{.length = k[2], .channels = y[1] * y[3]};
                               }};
  kernels::AttentionOptions options_;

  Tensor forward(const Tensor& q0, const Tensor& k0, const Tensor& v0, const AttentionOptions& options) {
    check_heads(q0, k0, v0);
    options_ = kernel_options(options);
    Tensor q = unit_stride(q0), k = unit_stride(k0), v = unit_stride(v0), lse;
    if (recording()) lse = lse_for(q);
    Tensor out = Tensor::empty(q.shape(), q.dtype(), q.device());
    kernels::attention(current_stream(q.device()),
                       {.q = q, .k = k, .v = v, .options = options_, .out = out, .lse = optional_view(lse)});
    save(q0, k0, v0, out, lse);
    return out;
  }

  TensorList backward(const TensorList& dout) {
    Tensor q0 = saved(0), k0 = saved(1), v0 = saved(2);
    if (grad_mode_enabled()) return differentiable_backward(q0, k0, v0, options_, dout[0]);
    Tensor q = unit_stride(q0), k = unit_stride(k0), v = unit_stride(v0);
    Tensor dq = empty_like(q), dk = empty_like(k), dv = empty_like(v);
    kernels::attention_backward(current_stream(q.device()), {.dout = unit_stride(dout[0]).view(),
                                                             .q = q,
                                                             .k = k,
                                                             .v = v,
                                                             .out = saved(3).view(),
                                                             .lse = saved(4).view(),
                                                             .options = options_,
                                                             .dq = dq,
                                                             .dk = dk,
                                                             .dv = dv});
    return {dq, dk, dv};
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
    options_ = kernel_options(options);
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
    Tensor qkv = packed.contiguous(), dqkv = empty_like(qkv), dy = dout[0].contiguous();
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

Tensor attention_wide(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                      const Tensor& keep) {
  int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), keys = k.size(2), dim = q.size(3);
  int64_t group = heads / k.size(1);
  auto repeat = [&](const Tensor& x) {  // (B, H_kv, S, D) -> (B, H, S, D)
    if (group == 1) return x;
    return reshape(expand(unsqueeze(x, 2), {batch, k.size(1), group, keys, dim}), {batch, heads, keys, dim});
  };
  double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(dim));
  Tensor scores = matmul(q, transpose(repeat(k), -2, -1)) * scale;  // (B, H, T, S)
  Tensor visible;
  if (options.causal) {
    Tensor row = reshape(arange(queries, DType::i64, q.device()), {queries, 1}),
           column = arange(keys, DType::i64, q.device());
    visible = less_equal(column, row + double(keys - queries));
    scores = where(visible, scores, scalar(-1e30, q.dtype(), q.device()));
  }
  Tensor probabilities = keys > 0 ? composite::softmax(scores) : scores;
  // A row that sees no key, where there are more queries than keys, is nothing and not the mean of all
  // values.
  if (keys < queries && options.causal)
    probabilities = where(visible, probabilities, scalar(0, q.dtype(), q.device()));
  if (keep.defined()) probabilities = probabilities * keep;
  return matmul(probabilities, repeat(v));
}

}  // namespace

Tensor composite::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                            const AttentionOptions& options, const Tensor& keep) {
  check_heads(q, k, v);
  auto wide = [&](const Tensor& queries, const Tensor& keys, const Tensor& values, const Tensor& mask) {
    return attention_wide(queries, keys, values, options, mask);
  };
  return in_f32(wide, q, k, v, keep);
}

}  // namespace reprise
