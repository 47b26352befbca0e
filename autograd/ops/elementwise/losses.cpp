// Losses whose terms are made of one number and its target.
#include "reprise/autograd/ops/elementwise/losses.h"

#include <algorithm>
#include <cmath>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/elementwise/run_binary.h"
#include "reprise/autograd/ops/elementwise/wide_pairs.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/read_half.h"
#include "reprise/autograd/ops/wide.h"

namespace reprise {
namespace {

using namespace autograd;

using kernels::BinaryOp;

struct BceWithLogits : Function<BceWithLogits> {
  static constexpr const char* name = "bce_with_logits";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b11;  // both: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& logits, const Tensor& targets) {
    save(logits, targets);
    const DType dtype = under_autocast() ? statistics_dtype(logits) : logits.dtype();
    return run_binary(BinaryOp::bce_with_logits, logits, targets, dtype, name);
  }

  TensorList backward(const TensorList& dy) {
    Tensor logits = saved(0), targets = saved(1);
    auto of_logits = [](const Tensor& d, const Tensor& x, const Tensor& t) { return d * (sigmoid(x) - t); };
    const DType wide = dy[0].dtype();
    const bool reads = !grad_mode_enabled() && (logits.dtype() != wide || targets.dtype() != wide);
    Tensor of_x, of_t;
    if (needs_grad(0) && !reads) of_x = in_f32(of_logits, dy[0], logits, targets);
    if (needs_grad(0) && reads) {  // the same, of 16 bits that are read where they lie
      Tensor off = Tensor::empty(logits.shape(), wide, logits.device());
      kernels::unary(current_stream(off.device()), kernels::UnaryOp::sigmoid, logits, off);
      kernels::binary(current_stream(off.device()), BinaryOp::sub, off, targets, off);
      of_x = run_binary(BinaryOp::mul, dy[0], off, gradient_dtype(0, logits.dtype()), name);
    }
    if (needs_grad(1))
      of_t = reads ? run_binary(BinaryOp::mul, -dy[0], logits, gradient_dtype(1, targets.dtype()), name)
                   : -dy[0] * logits;
    return {of_x, of_t};
  }
};

// No logarithm is less than this, as in PyTorch.
Tensor held_log(const Tensor& x) { return clamp(log(x), -100, INFINITY); }

Tensor one_like(const Tensor& x) { return scalar(1, statistics_dtype(x), x.device()); }

struct BceLoss : Function<BceLoss> {
  static constexpr const char* name = "bce_loss";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b11;  // both: 16 bits are read where they lie
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& probabilities, const Tensor& targets) {
    save(probabilities, targets);
    auto wide = [](const Tensor& p, const Tensor& t) {
      const Tensor one = one_like(p);
      return -(t * held_log(p) + (one - t) * held_log(one - p));
    };
    const DType dtype = under_autocast() ? statistics_dtype(probabilities) : probabilities.dtype();
    return reading_half(wide, dtype, probabilities, targets);
  }

  TensorList backward(const TensorList& dy) {
    const Tensor probabilities = saved(0), targets = saved(1);
    // PyTorch's least denominator: at 0 and 1 the gradient is large, and a number.
    auto of_probabilities = [](const Tensor& d, const Tensor& p, const Tensor& t) {
      return product(d, difference(p, t)) / clamp(p * (one_like(p) - p), 1e-12, INFINITY);
    };
    auto of_targets = [](const Tensor& d, const Tensor& p) {
      return product(d, held_log(one_like(p) - p) - held_log(p));
    };
    Tensor of_p, of_t;
    if (needs_grad(0))
      of_p = reading_half(of_probabilities, gradient_dtype(0, probabilities.dtype()), dy[0], probabilities,
                          targets);
    if (needs_grad(1))
      of_t = reading_half(of_targets, gradient_dtype(1, targets.dtype()), dy[0], probabilities);
    return {of_p, of_t};
  }
};

// weight t softplus(-x) + (1 - t) softplus(x) of logits x: the terms as they are, which have one sign, so that nothing cancels.
struct WeightedBce : Function<WeightedBce> {
  static constexpr const char* name = "bce_with_logits";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b11;  // logits and targets: 16 bits are read where they lie
  static constexpr OpCost cost = OpCost::pointwise();

  // `weight` is of f32, or f64 of logits of f64.
  Tensor forward(const Tensor& logits, const Tensor& targets, const Tensor& weight) {
    save(logits, targets, weight);
    auto wide = [&](const Tensor& x, const Tensor& t) {
      return t * softplus(-x) * weight + (one_like(t) - t) * softplus(x);
    };
    const DType dtype = under_autocast() ? statistics_dtype(logits) : logits.dtype();
    return reading_half(wide, dtype, logits, targets);
  }

  TensorList backward(const TensorList& dy) {
    const Tensor logits = saved(0), targets = saved(1), weight = saved(2);
    auto of_logits = [&](const Tensor& d, const Tensor& x, const Tensor& t) {
      return product(d, (one_like(t) - t) * wide_sigmoid(x) - t * wide_sigmoid(-x) * weight);
    };
    auto of_targets = [&](const Tensor& d, const Tensor& x) {
      return product(d, softplus(-x) * weight - softplus(x));
    };
    auto of_weight = [&](const Tensor& d, const Tensor& x, const Tensor& t) {
      return sum_to(product(d, t * softplus(-x)), weight.shape());
    };
    Tensor of_x, of_t, of_w;
    if (needs_grad(0))
      of_x = reading_half(of_logits, gradient_dtype(0, logits.dtype()), dy[0], logits, targets);
    if (needs_grad(1)) of_t = reading_half(of_targets, gradient_dtype(1, targets.dtype()), dy[0], logits);
    if (needs_grad(2)) of_w = reading_half(of_weight, weight.dtype(), dy[0], logits, targets);
    return {of_x, of_t, of_w};
  }

 private:
  // In f32 of 16 bits that are read where they lie, which a graph has none of.
  static Tensor wide_sigmoid(const Tensor& x) {
    if (!is_half(x.dtype())) return sigmoid(x);
    Tensor y = Tensor::empty(x.shape(), DType::f32, x.device());
    kernels::unary(current_stream(x.device()), kernels::UnaryOp::sigmoid, x, y);
    return y;
  }
};

// p (log p - log q), 0 where p is 0, or of log p instead of p.
struct KlDiv : Function<KlDiv> {
  static constexpr const char* name = "kl_div";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b11;  // both: 16 bits are read where they lie
  static constexpr OpCost cost = OpCost::pointwise();
  bool log_target_ = false;
  DType of_q_ = DType::f32;

  Tensor forward(const Tensor& log_q, const Tensor& target, bool log_target) {
    log_target_ = log_target;
    of_q_ = log_q.dtype();
    save(needs_grad(1) ? log_q : Tensor(), target);
    auto wide = [&](const Tensor& q, const Tensor& t) {
      return log_target_ ? exp(t) * difference(t, q) : t * (log_of(t) - q);
    };
    const DType dtype = under_autocast() ? statistics_dtype(log_q) : log_q.dtype();
    return reading_half(wide, dtype, log_q, target);
  }

  TensorList backward(const TensorList& dy) {
    const Tensor log_q = saved(0), target = saved(1);
    auto of_q = [&](const Tensor& d, const Tensor& t) { return product(-d, log_target_ ? exp(t) : t); };
    auto of_target = [&](const Tensor& d, const Tensor& q, const Tensor& t) {
      if (log_target_) return product(d, exp(t) * (difference(t, q) + 1.0));
      const Tensor one = one_like(t);
      return product(d, log_of(t) - q + where(t == 0, one * 0.0, one));
    };
    Tensor dq, dt;
    if (needs_grad(0)) dq = reading_half(of_q, gradient_dtype(0, of_q_), dy[0], target);
    if (needs_grad(1)) dt = reading_half(of_target, gradient_dtype(1, target.dtype()), dy[0], log_q, target);
    return {dq, dt};
  }

 private:
  // log p, and 0 of 0.
  static Tensor log_of(const Tensor& p) {
    auto like = [&](double value) { return scalar(value, p.dtype(), p.device()); };
    return log(where(equal(p, like(0)), like(1), p));
  }
};

// Of one dtype, or of several that autocast lets kernels read beside each other.
void check_pair(const char* op, const Tensor& x, const Tensor& target) {
  check_given(op, x, target);
  check(x.shape() == target.shape(), op, ": shapes differ: ", x.shape(), " and ", target.shape());
  check_floating(op, x);
  check(is_floating(target.dtype()), op, ": the target is ", target.dtype(), ' ', target.shape(),
        ", should be ", x.dtype(), ": write cast(target, DType::", x.dtype(), ')');
  if (!amp::autocast_dtype(x.device()) || !meet_in_f32(x.dtype(), target.dtype())) check_dtype(x, target, op);
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

// beta huber(off / beta), of 0 |off|.
Tensor smooth(const Tensor& off, double beta) {
  if (beta == 0) return abs(off);
  return beta == 1 ? huber(off) : huber(off / beta) * beta;
}

// f(x, y), which under autocast reads 16 bits where they lie, and elsewhere is rounded to them once.
template <class F>
Tensor of_pair(const Tensor& x, const Tensor& y, const F& f) {
  return amp::autocast_dtype(x.device()) ? f(x, y) : in_f32(f, x, y);
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

// f(x - y), reduced; x and y are a checked pair.
template <class F>
Tensor of_difference(const Tensor& x, const Tensor& y, Reduction reduction, const F& f) {
  if (amp::autocast_dtype(x.device())) {
    const Tensor off = difference(x, y);
    amp::AutocastOff inside;
    return reduced(f(off), reduction);
  }
  auto wide = [&](const Tensor& a, const Tensor& b) { return f(a - b); };
  return reduced(in_f32(wide, x, y), reduction);
}

}  // namespace

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, Reduction reduction) {
  check_pair("bce_with_logits", logits, targets);
  return reduced(BceWithLogits::apply(logits, targets), reduction);
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const BceWithLogitsOptions& options) {
  const char* op = "bce_with_logits";
  check_pair(op, logits, targets);
  check_factor(op, "pos_weight", options.pos_weight, logits);
  check_factor(op, "weight", options.weight, logits);
  auto wide = [&](const Tensor& x, const Tensor& t) {
    const Tensor losses = options.pos_weight.defined()
                              ? WeightedBce::apply(x, t, cast(options.pos_weight, statistics_dtype(x)))
                              : BceWithLogits::apply(x, t);
    return options.weight.defined() ? times(losses, options.weight) : losses;
  };
  return reduced(of_pair(logits, targets, wide), options.reduction);
}

Tensor smooth_l1(const Tensor& x, const Tensor& y, const SmoothL1Options& options) {
  check_pair("smooth_l1", x, y);
  check(options.beta >= 0, "smooth_l1: beta is ", options.beta, ", should not be negative");
  return of_difference(x, y, options.reduction, [&](const Tensor& off) { return smooth(off, options.beta); });
}

Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberLossOptions& options) {
  check_pair("huber_loss", x, y);
  check(options.delta > 0 && std::isfinite(options.delta), "huber_loss: delta is ", options.delta,
        ", should be above 0 and finite");
  return of_difference(x, y, options.reduction,
                       [&](const Tensor& off) { return smooth(off, options.delta) * options.delta; });
}

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  check_pair("mse_loss", x, y);
  return of_difference(x, y, reduction, [](const Tensor& off) { return square(off); });
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  check_pair("l1_loss", x, y);
  return smooth_l1(x, y, {.beta = 0, .reduction = reduction});
}

Tensor bce_loss(const Tensor& probabilities, const Tensor& targets, Reduction reduction) {
  check_pair("bce_loss", probabilities, targets);
  return reduced(BceLoss::apply(probabilities, targets), reduction);
}

Tensor bce_loss(const Tensor& probabilities, const Tensor& targets, const BceLossOptions& options) {
  check_pair("bce_loss", probabilities, targets);
  check_factor("bce_loss", "weight", options.weight, probabilities);
  auto wide = [&](const Tensor& p, const Tensor& t) {
    const Tensor losses = BceLoss::apply(p, t);
    return options.weight.defined() ? times(losses, options.weight) : losses;
  };
  return reduced(of_pair(probabilities, targets, wide), options.reduction);
}

Tensor kl_div(const Tensor& log_q, const Tensor& p, const KlDivOptions& options) {
  check_pair("kl_div", log_q, p);
  check(!options.batch_mean || options.reduction == Reduction::mean,
        "kl_div: batch_mean is a reduction of its own; another one stands beside it");
  check(!options.batch_mean || log_q.rank() > 0, "kl_div: batch_mean needs a first dimension, got ",
        log_q.shape());
  const Tensor losses = KlDiv::apply(log_q, p, options.log_target);
  if (options.batch_mean) return sum(losses) / double(std::max<int64_t>(1, log_q.size(0)));
  return reduced(losses, options.reduction);
}

}  // namespace reprise
