// Softmax cross-entropy as one operation: forward makes the loss and the gradient of the logits in one pass
// and keeps the gradient only, in the memory of logits that nothing else holds. Of logits in 16 bits it keeps these and
// a log-sum-exp per row, and backward makes the gradient: before the gradient of the loss, and so a loss scale, is in
// it, it would vanish in f16. The host reads nothing: how many targets a mean is taken over stays on the device.
#include "reprise/kernels/softmax/cross_entropy.h"

#include <algorithm>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/padded_rows.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/result_dtype.h"
#include "reprise/autograd/ops/softmax/soft_cross_entropy.h"
#include "reprise/autograd/ops/softmax/weighted_cross_entropy.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

// 1 / the rows of a mean: one f64.
Tensor mean_scale(const Tensor& targets, int64_t ignore_index) {
  NoGrad guard;
  Tensor labels = reshape(targets, {targets.numel()});
  Tensor scale = Tensor::empty({}, DType::f64, targets.device());
  kernels::cross_entropy_mean_scale(current_stream(targets.device()), labels, ignore_index, scale);
  return scale;
}

// x times one f64, rounded once to the dtype of x. The factor may lie beyond the half types.
Tensor times(const Tensor& x, const Tensor& factor) {
  return converted(x * converted(factor, statistics_dtype(x)), x.dtype());
}

// The distribution the loss compares with: (rows, V); zero rows where ignored.
Tensor target_distribution(const Tensor& targets, int64_t classes, const CrossEntropyOptions& options,
                           DType dtype) {
  NoGrad guard;
  if (is_floating(targets.dtype())) return soft_distribution(targets, options, dtype);
  Tensor zero = scalar(0, DType::i64, targets.device());
  Tensor ignored = Tensor::from<int64_t>({options.ignore_index}, {}, targets.device());
  Tensor counts = not_equal(targets, ignored);
  Tensor smooth = one_hot(where(counts, targets, zero), classes, dtype) * (1 - options.label_smoothing) +
                  options.label_smoothing / double(classes);
  return smooth * unsqueeze(cast(counts, dtype), -1);
}

struct CrossEntropy : Function<CrossEntropy> {
  static constexpr const char* name = "cross_entropy";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // logits: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::reduction();
  CrossEntropyOptions options_;
  Shape logits_shape_;
  bool keeps_logits_ = false, given_away_ = false;

  Tensor forward(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                 const GivenAway& given_away) {
    check_classes(logits, targets);
    options_ = options;
    logits_shape_ = logits.shape();
    int64_t classes = logits.size(-1), rows = targets.numel();
    Tensor flat = reshape(unit_stride(logits), {rows, classes}), labels = reshape(targets, {rows}), dlogits,
           scale;
    if (options.reduction == Reduction::mean) scale = mean_scale(labels, options.ignore_index);
    Tensor losses = Tensor::empty({rows}, statistics_dtype(logits), logits.device()), log_sums;
    keeps_logits_ = is_half(logits.dtype());
    given_away_ = given_away.logits;
    if (recording() && keeps_logits_) log_sums = Tensor::empty({rows}, DType::f64, logits.device());
    if (recording() && !keeps_logits_)
      dlogits = given_away.logits ? flat.alias(flat.view()) : empty_beside(flat);
    kernels::cross_entropy(current_stream(logits.device()),
                           {.logits = flat,
                            .targets = labels,
                            .options = {options.ignore_index, options.label_smoothing},
                            .losses = losses,
                            .dlogits = optional_view(dlogits),
                            .scale = optional_view(scale),
                            .log_sums = optional_view(log_sums)});
    save(keeps_logits_ ? logits : dlogits, labels, scale, log_sums);
    const DType dtype = options.out.value_or(under_autocast() ? losses.dtype() : logits.dtype());
    if (options.reduction == Reduction::none) return raw_reshape(converted(losses, dtype), targets.shape());
    Tensor total = sum(losses);
    return converted(scale.defined() ? times(total, scale) : total, dtype);
  }

  TensorList backward(const TensorList& dy) {
    if (keeps_logits_)
      return {grad_mode_enabled() ? of_composite(saved(0), dy[0]) : of_logits(dy[0]), Tensor()};
    if (grad_mode_enabled()) return {differentiable(dy[0]), Tensor()};
    return {raw_reshape(times_upstream(take_saved(0), dy[0]), logits_shape_), Tensor()};
  }

  // From the logits, in their memory where they were given away.
  Tensor of_logits(const Tensor& dy) {
    const Tensor labels = saved(1), scale = saved(2), log_sums = saved(3), factor = converted(dy, DType::f32);
    const Tensor logits = given_away_ ? take_saved(0) : saved(0);
    const bool overwrites = logits.is_sole_owner() && lies_as_beside(logits);
    const Shape rows{labels.size(0), logits.size(-1)};
    const Tensor flat = reshape(unit_stride(logits), rows);
    const Tensor dlogits = overwrites ? flat.alias(flat.view()) : empty_beside(flat);
    const bool none = options_.reduction == Reduction::none;
    kernels::cross_entropy_backward(
        current_stream(logits.device()),
        {.logits = flat,
         .targets = labels,
         .options = {options_.ignore_index, options_.label_smoothing},
         .log_sums = log_sums,
         .dy = none ? reshape(factor, {rows[0]}).view() : expand(factor.view(), {rows[0]}),
         .scale = optional_view(scale),
         .dlogits = dlogits});
    return raw_reshape(dlogits, logits_shape_);
  }

  // Note [Cross-entropy twice]
  // The logits are gone, but dlogits = scale * (softmax - q) gives the probabilities back, and
  // log(probabilities) equals the logits up to a shift of each row that softmax ignores. So the composite
  // runs on that, at the logits' place in the graph.
  Tensor differentiable(const Tensor& dy) {
    Tensor dlogits = saved(0), labels = saved(1), scale = saved(2), z;
    {
      NoGrad guard;
      Tensor d = widened(dlogits), q = target_distribution(labels, d.size(1), options_, d.dtype());
      Tensor tiny = scalar(1e-30, d.dtype(), d.device());  // a logarithm of 0 would give NaN
      z = log(maximum((scale.defined() ? times(d, reciprocal(scale)) : d) + q, tiny));
      z = raw_reshape(cast(z, dlogits.dtype()), logits_shape_);
    }
    set_grad_fn(z, edges()[0].node, edges()[0].input);
    return of_composite(z, dy);
  }

  Tensor of_composite(const Tensor& logits, const Tensor& dy) {
    const Tensor labels = saved(1);
    auto same = [&](const TensorList& in) {
      const Tensor z = widened(in[0]);
      Tensor loss = composite::cross_entropy(z, raw_reshape(labels, rows_shape(z)), options_);
      return TensorList{cast(loss, dy.dtype())};
    };
    return composite_backward(same, {logits}, {dy})[0];
  }
};

// Against class indices or probabilities, as the targets' dtype says.
Tensor apply(const Tensor& logits, const Tensor& given_targets, const CrossEntropyOptions& options,
             const GivenAway& given_away) {
  check_given("cross_entropy", logits, given_targets);
  const Tensor targets = as_i64(given_targets);
  if (options.out) check_result_dtype("cross_entropy", logits, *options.out);
  if (options.weight.defined()) return weighted_cross_entropy(logits, targets, options);
  if (!is_floating(targets.dtype())) return CrossEntropy::apply(logits, targets, options, given_away);
  return soft_cross_entropy(logits, targets, options, given_away);
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  return apply(logits, targets, options, {});
}

// Where hooks take what is saved, a policy may keep the logits after the call: then they stay as they are.
Tensor cross_entropy(Tensor&& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  Tensor given = std::move(logits);
  bool overwrites =
      given.defined() && given.is_sole_owner() && lies_as_beside(given) && !SavedTensorHooks::active();
  return apply(given, targets, options, {overwrites});
}

Tensor composite::cross_entropy(const Tensor& logits, const Tensor& targets,
                                const CrossEntropyOptions& options) {
  auto wide = [&](const Tensor& z) {
    const Tensor& weight = options.weight;
    Tensor q = target_distribution(targets, z.size(-1), options, z.dtype());
    if (weight.defined()) q = q * cast(weight, z.dtype());
    Tensor none = scalar(0, z.dtype(), z.device());  // where q is 0, also times a log-probability of -inf
    Tensor losses = -sum(where(not_equal(q, none), q * composite::log_softmax(z), none), {-1});
    if (options.reduction == Reduction::none) return losses;
    if (options.reduction == Reduction::sum) return sum(losses);
    if (is_floating(targets.dtype())) return sum(losses) / double(std::max<int64_t>(1, losses.numel()));
    if (weight.defined()) {
      const Tensor hits =
          target_distribution(targets, z.size(-1), {.ignore_index = options.ignore_index}, z.dtype());
      return weighted_mean(losses, hits * cast(weight, z.dtype()));
    }
    return sum(losses) * cast(mean_scale(targets, options.ignore_index), z.dtype());
  };
  return in_f32(wide, logits);
}

}  // namespace reprise
