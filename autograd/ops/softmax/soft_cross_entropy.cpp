// Cross-entropy against probabilities as one operation: as against class indices (cross_entropy.cpp), forward makes the
// gradient of the logits and keeps that. Of logits in f16 it keeps these, and backward makes the gradient, with that of the loss in
// it: before, it would vanish in f16.
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
  static constexpr uint32_t autocast_keeps = 0b11;  // the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::reduction();
  CrossEntropyOptions options_;
  Shape shape_;
  double scale_ = 1;
  bool keeps_logits_ = false, given_away_ = false;

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
    const bool as_they_lie = meet_in_f32(targets.dtype(), logits.dtype());
    const Tensor given = as_they_lie ? targets : converted(targets, statistics_dtype(logits));
    Tensor probabilities = unit_stride(reshape(given, rows));
    Tensor losses = Tensor::empty({rows[0]}, statistics_dtype(logits), logits.device());
    const DType dtype = options.out.value_or(under_autocast() ? losses.dtype() : logits.dtype());
    keeps_logits_ = logits.dtype() == DType::f16;
    given_away_ = given_away.logits;
    if (recording() && !keeps_logits_)
      dlogits = given_away.logits ? flat.alias(flat.view()) : empty_beside(flat);
    run(flat, probabilities, losses, dlogits, {});
    save(keeps_logits_ ? logits : dlogits, probabilities);
    if (options.reduction == Reduction::none) return raw_reshape(cast(losses, dtype), rows_shape(logits));
    return cast(sum(losses) * scale_, dtype);
  }

  TensorList backward(const TensorList& dy) {
    if (keeps_logits_)
      return {grad_mode_enabled() ? of_composite(saved(0), dy[0]) : of_logits(dy[0]), Tensor()};
    if (grad_mode_enabled()) return {differentiable(dy[0]), Tensor()};
    return {raw_reshape(times_upstream(take_saved(0), dy[0]), shape_), Tensor()};
  }

  void run(const Tensor& logits, const Tensor& probabilities, const Tensor& losses, const Tensor& dlogits,
           const TensorView& dy) {
    kernels::soft_cross_entropy(current_stream(logits.device()), {.logits = logits,
                                                                  .targets = probabilities,
                                                                  .label_smoothing = options_.label_smoothing,
                                                                  .losses = losses,
                                                                  .dlogits = optional_view(dlogits),
                                                                  .scale = scale_,
                                                                  .dy = dy});
  }

  // From the logits, in their memory where they were given away.
  Tensor of_logits(const Tensor& dy) {
    const Tensor logits = given_away_ ? take_saved(0) : saved(0), factor = converted(dy, DType::f32);
    const bool overwrites = logits.is_sole_owner() && lies_as_beside(logits);
    const Shape rows{numel_of(rows_shape(logits)), logits.size(-1)};
    const Tensor flat = reshape(unit_stride(logits), rows);
    const Tensor dlogits = overwrites ? flat.alias(flat.view()) : empty_beside(flat);
    const bool none = options_.reduction == Reduction::none;
    run(flat, saved(1), Tensor::empty({rows[0]}, DType::f32, logits.device()), dlogits,
        none ? reshape(factor, {rows[0]}).view() : expand(factor.view(), {rows[0]}));
    return raw_reshape(dlogits, shape_);
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
    return of_composite(z, dy);
  }

  Tensor of_composite(const Tensor& logits, const Tensor& dy) {
    const Tensor probabilities = saved(1);
    auto same = [&](const TensorList& in) {
      const Tensor z = keeps_logits_ ? widened(in[0]) : in[0];
      Tensor loss = composite::cross_entropy(z, raw_reshape(probabilities, shape_), options_);
      return TensorList{cast(loss, dy.dtype())};
    };
    return composite_backward(same, {logits}, {dy})[0];
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
