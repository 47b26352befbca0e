// Losses whose terms are made of one number and its target.
#include "reprise/autograd/ops/elementwise/losses.h"

#include <algorithm>
#include <cmath>

#include "reprise/autograd/cast_seam.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise {
namespace {

using namespace autograd;

struct BceWithLogits : Function<BceWithLogits> {
  static constexpr const char* name = "bce_with_logits";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& logits, const Tensor& targets) {
    save(logits, targets);
    Tensor y = raw_empty_like(logits);
    kernels::binary(current_stream(logits.device()), kernels::BinaryOp::bce_with_logits, logits, targets, y);
    return y;
  }

  TensorList backward(const TensorList& dy) {
    Tensor logits = saved(0), targets = saved(1);
    auto of_logits = [](const Tensor& d, const Tensor& x, const Tensor& t) { return d * (sigmoid(x) - t); };
    return {needs_grad(0) ? in_f32(of_logits, dy[0], logits, targets) : Tensor(),
            needs_grad(1) ? -dy[0] * logits : Tensor()};
  }
};

// No logarithm is less than this, as in PyTorch.
Tensor held_log(const Tensor& x) { return clamp(log(x), -100, INFINITY); }

struct BceLoss : Function<BceLoss> {
  static constexpr const char* name = "bce_loss";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& probabilities, const Tensor& targets) {
    save(probabilities, targets);
    auto wide = [](const Tensor& p, const Tensor& t) {
      return -(t * held_log(p) + (1.0 - t) * held_log(1.0 - p));
    };
    return in_f32_inside(wide, probabilities, targets);
  }

  TensorList backward(const TensorList& dy) {
    const Tensor probabilities = saved(0), targets = saved(1);
    // PyTorch's least denominator: at 0 and 1 the gradient is large, and a number.
    auto of_probabilities = [](const Tensor& d, const Tensor& p, const Tensor& t) {
      return d * (p - t) / clamp(p * (1.0 - p), 1e-12, INFINITY);
    };
    auto of_targets = [](const Tensor& d, const Tensor& p) { return d * (held_log(1.0 - p) - held_log(p)); };
    return {needs_grad(0) ? in_f32(of_probabilities, dy[0], probabilities, targets) : Tensor(),
            needs_grad(1) ? in_f32(of_targets, dy[0], probabilities) : Tensor()};
  }
};

void check_pair(const char* op, const Tensor& x, const Tensor& target) {
  check_given(op, x, target);
  check(x.shape() == target.shape(), op, ": shapes differ: ", x.shape(), " and ", target.shape());
  check_floating(op, x);
  check(is_floating(target.dtype()), op, ": the target is ", target.dtype(), ' ', target.shape(),
        ", should be ", x.dtype(), ": write cast(target, DType::", x.dtype(), ')');
  check_dtype(x, target, op);
  check_device(op, x, target);
}

// A factor of the elements of x, if there is one.
void check_factor(const char* op, const char* name, const Tensor& factor, const Tensor& x) {
  if (!factor.defined()) return;
  const Shape& own = factor.shape();
  bool broadcasts = own.size() <= x.rank();
  for (int d = 1; broadcasts && d <= own.size(); ++d)
    broadcasts = own[own.size() - d] == 1 || own[own.size() - d] == x.size(-d);
  check(broadcasts && is_floating(factor.dtype()), op, ": ", name, " is ", factor.dtype(), ' ', own,
        ", should be of a floating dtype and broadcast to ", x.shape());
  check_device(op, x, factor);
}

Tensor times(const Tensor& x, const Tensor& factor) { return x * cast(factor, x.dtype()); }

// beta huber((a - b) / beta), of 0 |a - b|.
Tensor smooth(const Tensor& a, const Tensor& b, double beta) {
  if (beta == 0) return abs(a - b);
  return beta == 1 ? huber(a - b) : huber((a - b) / beta) * beta;
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, Reduction reduction) {
  const CastArguments in(amp::Policy::f32, logits, targets);
  check_pair("bce_with_logits", in[0], in[1]);
  return reduced(BceWithLogits::apply(in[0], in[1]), reduction);
}

// Both terms as they are, which have one sign: nothing cancels.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const BceWithLogitsOptions& options) {
  const char* op = "bce_with_logits";
  const CastArguments in(amp::Policy::f32, logits, targets);
  check_pair(op, in[0], in[1]);
  check_factor(op, "pos_weight", options.pos_weight, in[0]);
  check_factor(op, "weight", options.weight, in[0]);
  auto wide = [&](const Tensor& x, const Tensor& t) {
    const Tensor losses = options.pos_weight.defined()
                              ? times(t * softplus(-x), options.pos_weight) + (1.0 - t) * softplus(x)
                              : BceWithLogits::apply(x, t);
    return options.weight.defined() ? times(losses, options.weight) : losses;
  };
  return reduced(in_f32(wide, in[0], in[1]), options.reduction);
}

Tensor smooth_l1(const Tensor& x, const Tensor& y, const SmoothL1Options& options) {
  const CastArguments in(amp::Policy::f32, x, y);
  check_pair("smooth_l1", in[0], in[1]);
  check(options.beta >= 0, "smooth_l1: beta is ", options.beta, ", should not be negative");
  auto wide = [&](const Tensor& a, const Tensor& b) { return smooth(a, b, options.beta); };
  return reduced(in_f32(wide, in[0], in[1]), options.reduction);
}

Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberLossOptions& options) {
  const CastArguments in(amp::Policy::f32, x, y);
  check_pair("huber_loss", in[0], in[1]);
  check(options.delta > 0 && std::isfinite(options.delta), "huber_loss: delta is ", options.delta,
        ", should be above 0 and finite");
  auto wide = [&](const Tensor& a, const Tensor& b) { return smooth(a, b, options.delta) * options.delta; };
  return reduced(in_f32(wide, in[0], in[1]), options.reduction);
}

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  const CastArguments in(amp::Policy::f32, x, y);
  check_pair("mse_loss", in[0], in[1]);
  auto wide = [](const Tensor& a, const Tensor& b) { return square(a - b); };
  return reduced(in_f32(wide, in[0], in[1]), reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  const CastArguments in(amp::Policy::f32, x, y);
  check_pair("l1_loss", in[0], in[1]);
  return smooth_l1(in[0], in[1], {.beta = 0, .reduction = reduction});
}

Tensor bce_loss(const Tensor& probabilities, const Tensor& targets, Reduction reduction) {
  const CastArguments in(amp::Policy::f32, probabilities, targets);
  check_pair("bce_loss", in[0], in[1]);
  return reduced(BceLoss::apply(in[0], in[1]), reduction);
}

Tensor bce_loss(const Tensor& probabilities, const Tensor& targets, const BceLossOptions& options) {
  const CastArguments in(amp::Policy::f32, probabilities, targets);
  check_pair("bce_loss", in[0], in[1]);
  check_factor("bce_loss", "weight", options.weight, in[0]);
  auto wide = [&](const Tensor& p, const Tensor& t) {
    const Tensor losses = BceLoss::apply(p, t);
    return options.weight.defined() ? times(losses, options.weight) : losses;
  };
  return reduced(in_f32(wide, in[0], in[1]), options.reduction);
}

Tensor kl_div(const Tensor& log_q, const Tensor& p, const KlDivOptions& options) {
  const CastArguments in(amp::Policy::f32, log_q, p);
  check_pair("kl_div", in[0], in[1]);
  check(!options.batch_mean || options.reduction == Reduction::mean,
        "kl_div: batch_mean is a reduction of its own; another one stands beside it");
  check(!options.batch_mean || log_q.rank() > 0, "kl_div: batch_mean needs a first dimension, got ",
        log_q.shape());
  auto wide = [&](const Tensor& q, const Tensor& target) {
    if (options.log_target) return exp(target) * (target - q);
    const Tensor is_zero = equal(target, scalar(0, target.dtype(), target.device()));
    const Tensor log_p = log(where(is_zero, scalar(1, target.dtype(), target.device()), target));
    return target * (log_p - q);
  };
  if (options.batch_mean)
    return sum(in_f32(wide, in[0], in[1])) / double(std::max<int64_t>(1, log_q.size(0)));
  return reduced(in_f32(wide, in[0], in[1]), options.reduction);
}

}  // namespace reprise
