// Losses whose terms are made of one number and its target.
#include "reprise/autograd/ops/elementwise/losses.h"

#include <algorithm>
#include <cmath>

#include "reprise/autograd/cast_seam.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/pointwise.h"
#include "reprise/autograd/ops/elementwise/run_binary.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
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

// a - b of tensors of one shape, in f32 under autocast.
struct Difference : Function<Difference> {
  static constexpr const char* name = "sub";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b11;  // both: the kernel reads 16 bits and computes in f32
  static constexpr OpCost cost = OpCost::pointwise();

  Tensor forward(const Tensor& a, const Tensor& b) {
    return run_binary(BinaryOp::sub, a, b, under_autocast() ? statistics_dtype(a) : a.dtype(), name);
  }
  TensorList backward(const TensorList& dy) {
    return {needs_grad(0) ? dy[0] : Tensor(), needs_grad(1) ? -dy[0] : Tensor()};
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

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

// f(x - y), reduced; x and y are a checked pair.
template <class F>
Tensor of_difference(const Tensor& x, const Tensor& y, Reduction reduction, const F& f) {
  if (amp::autocast_dtype(x.device())) {
    const Tensor off = Difference::apply(x, y);
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

// Both terms as they are, which have one sign: nothing cancels.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const BceWithLogitsOptions& options) {
  const char* op = "bce_with_logits";
  check_pair(op, logits, targets);
  check_factor(op, "pos_weight", options.pos_weight, logits);
  check_factor(op, "weight", options.weight, logits);
  auto weighted = [&](const Tensor& losses) {
    return options.weight.defined() ? times(losses, options.weight) : losses;
  };
  if (amp::autocast_dtype(logits.device()) && !options.pos_weight.defined()) {
    const Tensor losses = BceWithLogits::apply(logits, targets);
    amp::AutocastOff inside;
    return reduced(weighted(losses), options.reduction);
  }
  const CastArguments in(amp::Policy::f32, logits, targets);
  auto wide = [&](const Tensor& x, const Tensor& t) {
    return weighted(options.pos_weight.defined()
                        ? times(t * softplus(-x), options.pos_weight) + (1.0 - t) * softplus(x)
                        : BceWithLogits::apply(x, t));
  };
  return reduced(in_f32(wide, in[0], in[1]), options.reduction);
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
