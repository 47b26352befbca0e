// Cross-entropy against probabilities as one operation: as against class indices (cross_entropy.cpp), forward makes the
// gradient of the logits and keeps that.
#include "reprise/autograd/ops/softmax/soft_cross_entropy.h"

#include <algorithm>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops/padded_rows.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/softmax/weighted_cross_entropy.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/softmax/scale_rows.h"
#include "reprise/kernels/softmax/soft_cross_entropy.h"

namespace reprise::autograd {
namespace {

struct SoftCrossEntropy : Function<SoftCrossEntropy> {
  static constexpr const char* name = "soft_cross_entropy";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // logits: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::reduction();
  CrossEntropyOptions options_;
  Shape shape_;
  double scale_ = 1;

  Tensor forward(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                 const GivenAway& given_away) {
    check_probabilities(logits, targets);
    check(!recording() || !targets.requires_grad(),
          "cross_entropy: gives probabilities no gradient; detach the targets");
    options_ = options;
    shape_ = logits.shape();
    const Shape rows{numel_of(rows_shape(logits)), logits.size(-1)};
    if (options.reduction == Reduction::mean) scale_ = 1 / double(std::max<int64_t>(1, rows[0]));
    Tensor flat = reshape(unit_stride(logits), rows), dlogits;
    Tensor probabilities = unit_stride(reshape(cast(targets, statistics_dtype(logits)), rows));
    Tensor losses = Tensor::empty({rows[0]}, statistics_dtype(logits), logits.device());
    if (recording()) dlogits = given_away.logits ? flat.alias(flat.view()) : empty_beside(flat);
    kernels::soft_cross_entropy(current_stream(logits.device()), {.logits = flat,
                                                                  .targets = probabilities,
                                                                  .label_smoothing = options.label_smoothing,
                                                                  .losses = losses,
                                                                  .dlogits = optional_view(dlogits),
                                                                  .scale = scale_});
    save(dlogits, probabilities);
    const DType dtype = options.out.value_or(under_autocast() ? losses.dtype() : logits.dtype());
    if (options.reduction == Reduction::none) return raw_reshape(cast(losses, dtype), rows_shape(logits));
    return cast(sum(losses) * scale_, dtype);
  }

  TensorList backward(const TensorList& dy) {
    if (grad_mode_enabled()) return {differentiable(dy[0]), Tensor()};
    return {raw_reshape(times_upstream(take_saved(0), dy[0]), shape_), Tensor()};
  }

  // Note [Cross-entropy twice] in cross_entropy.cpp: d / scale + q is softmax times the sum of q, and the factor of a
  // row is another shift of the logarithms.
  Tensor differentiable(const Tensor& dy) {
    Tensor dlogits = saved(0), probabilities = saved(1), z;
    {
      NoGrad guard;
      Tensor d = widened(dlogits), q = soft_distribution(probabilities, options_, d.dtype());
      Tensor tiny = scalar(1e-30, d.dtype(), d.device());  // a logarithm of 0 would give NaN
      z = raw_reshape(cast(log(maximum(d / scale_ + q, tiny)), dlogits.dtype()), shape_);
    }
    set_grad_fn(z, edges()[0].node, edges()[0].input);
    auto same = [&](const TensorList& in) {
      Tensor loss = composite::cross_entropy(in[0], raw_reshape(probabilities, shape_), options_);
      return TensorList{cast(loss, dy.dtype())};
    };
    return composite_backward(same, {z}, {dy})[0];
  }
};

}  // namespace

Tensor soft_cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                          const GivenAway& given_away) {
  return SoftCrossEntropy::apply(logits, targets, options, given_away);
}

Tensor times_upstream(const Tensor& dlogits, const Tensor& dy) {
  // On the CPU the usual case needs no copy of what a retained graph keeps, either.
  if (dy.device().is_cpu() && dy.numel() == 1 && dy.item() == 1) return dlogits;
  const Shape rows{dlogits.size(0)};
  const Tensor factors = converted(dy, statistics_dtype(dlogits));
  const Tensor result = dlogits.is_sole_owner() ? dlogits : empty_beside(dlogits);
  kernels::scale_rows(current_stream(dlogits.device()), dlogits,
                      factors.rank() == 0 ? expand(factors.view(), rows) : reshape(factors, rows).view(),
                      result);
  return result;
}

Tensor soft_distribution(const Tensor& targets, const CrossEntropyOptions& options, DType dtype) {
  return cast(targets, dtype) * (1 - options.label_smoothing) +
         options.label_smoothing / double(targets.size(-1));
}

}  // namespace reprise::autograd
