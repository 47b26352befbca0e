// What `attention` and `masked_attention` share: the calls of their kernels, and their composite.
#pragma once

#include "reprise/autograd/op_cost.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/attention/attention.h"

namespace reprise::autograd {

/// The kernels' options; draws for the dropout. Error naming `op` unless dropout is in [0, 1) and the scale finite.
kernels::AttentionOptions kernel_options(const char* op, const AttentionOptions& options);

/// What the kernels' dropout multiplies the probabilities (B, H, T, S) by; undefined if it drops nothing.
Tensor keep_mask(const Tensor& q, const Tensor& k, const kernels::AttentionOptions& options);

/// q (B, H, T, D), k and v (B, H_kv, S, D), and a mask of (B, H, T, S) that the kernels take, or none.
struct AttentionInputs {
  const Tensor &q, &k, &v;
  TensorView mask{};
};
/// The result, and the log-sum-exp (B, H, T) of the scores where `lse` asks for it.
Tensor attention_forward(const AttentionInputs& in, const kernels::AttentionOptions& options, Tensor* lse);
/// dq, dk and dv.
TensorList attention_gradients(const AttentionInputs& in, const kernels::AttentionOptions& options,
                               const Tensor& dout, const Tensor& out, const Tensor& lse);

/// Attention from simpler operations, under a mask that broadcasts to (B, H, T, S) or none, with its gradient; `keep` is
/// what dropout multiplies by, undefined for none, and `window` as of MaskedAttentionOptions.
Tensor attention_composite(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                           const Tensor& mask, const Tensor& keep, int64_t window = 0);

/// Of the cost: k (B, H_kv, S, D) is the second input, the result is (B, H, T, D).
inline OpCost::Sums attention_sums(const OpShapes& of) {
  const Shape &k = of.inputs[1], &y = of.results[0];
  return {.length = k[2], .channels = y[1] * y[3]};
}

}  // namespace reprise::autograd
