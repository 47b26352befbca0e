// Batch normalisation, residual and relu as one operation: keeps x, two numbers per channel and, with relu, its
// own result, which says as well as what relu took where that was positive. By the statistics of the batch
// and by given ones it is two operations, as only the second reads the running statistics. They are updated
// here, in the first run of a checkpointed region only; the region does not see them read, so it allows its
// own update of them and still refuses anybody's between an inference in the region and the replay of it. A collector
// (norm/batch_statistics.h) may take what would update them.
#include "reprise/kernels/norm/batch_norm.h"

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/norm/batch_statistics.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/wide.h"
#include "reprise/autograd/replay_filter.h"

namespace reprise {
namespace {

using namespace autograd;

/// What a batch updates, and how; no arguments of the operation.
struct RunningStatistics {
  Tensor mean, variance, batches;
  std::optional<double> momentum;

  void update(const Tensor& batch_mean, const Tensor& batch_variance, int64_t count) const {
    if (!mean.defined() || count == 0 || ReplayFilter::active()) return;
    const BatchStatistics batch{batch_mean, batch_variance, count, mean, variance, batches, momentum};
    if (!StatisticsCollector::add(batch)) batch.update();
  }
};

Tensor hollow_like(const Tensor& x) {
  return Tensor::hollow({nullptr, x.shape(), contiguous_strides(x.shape()), x.dtype(), x.device()});
}

void check_arguments(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                     const BatchNormEpilogue& epilogue, const char* op) {
  check(x.rank() >= 2, op, ": needs (N, C, ...), got shape ", x.shape());
  for (const Tensor& parameter : {gamma, beta})  // of half types the parameters may be f32
    if (parameter.defined() && !(is_half(x.dtype()) && parameter.dtype() == DType::f32))
      check_dtype(x, parameter, op);
  const Tensor& residual = epilogue.residual;
  check_dtype(x, residual, op);
  check(!residual.defined() || residual.shape() == x.shape(), op, ": a residual of shape ",
        residual.defined() ? residual.shape() : x.shape(), " does not fit ", x.shape());
  check(epilogue.activation == Activation::none || epilogue.activation == Activation::relu, op,
        ": the activation needs to be none or relu, is number ", int(epilogue.activation));
}

/// dy where relu's result y is positive or NaN, as a graph.
Tensor through_relu(const Tensor& dy, const Tensor& y) {
  const Tensor zero = scalar(0, y.dtype(), y.device());
  return where(less_equal(y, zero), zero, dy);
}

Tensor contiguous_or_none(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

/// The gradients of batch_norm from what it saved: x, gamma, beta, mean, variance and, with relu, its result.
/// Its tensor arguments begin with x, gamma, beta and residual.
template <class Derived>
struct BatchNormBackward : Function<Derived> {
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr OpCost cost = OpCost::pointwise();
  double eps_ = 0;

  TensorList gradients(const Tensor& dy, kernels::NormStatistics statistics) {
    Tensor x = this->saved(0), gamma = this->saved(1), beta = this->saved(2), mean = this->saved(3),
           variance = this->saved(4), y = this->saved(5);
    if (grad_mode_enabled()) {
      const Tensor dsum = y.defined() ? through_relu(dy, y) : dy;
      bool batch = statistics == kernels::NormStatistics::batch;
      auto same = [&](const TensorList& in) {
        return TensorList{composite::batch_norm(in[0], in[1], in[2], batch ? Tensor() : mean,
                                                batch ? Tensor() : variance, eps_)};
      };
      TensorList grads = composite_backward(same, {x, gamma, beta}, {dsum});
      grads.push_back(this->needs_grad(3) ? dsum : Tensor());
      return grads;
    }
    Tensor dx, dgamma, dbeta, dresidual;
    if (this->needs_grad(0)) dx = raw_empty_like(x);
    if (this->needs_grad(1)) dgamma = raw_empty_like(gamma);
    if (this->needs_grad(2)) dbeta = raw_empty_like(beta);
    if (this->needs_grad(3) && y.defined()) dresidual = raw_empty_like(x);
    kernels::batch_norm_backward(current_stream(x.device()), {.dy = dy.contiguous().view(),
                                                              .x = x.contiguous().view(),
                                                              .y = optional_view(y),
                                                              .gamma = optional_view(gamma),
                                                              .mean = mean,
                                                              .variance = variance,
                                                              .eps = eps_,
                                                              .statistics = statistics,
                                                              .dx = optional_view(dx),
                                                              .dgamma = optional_view(dgamma),
                                                              .dbeta = optional_view(dbeta),
                                                              .dresidual = optional_view(dresidual)});
    if (this->needs_grad(3) && !y.defined()) dresidual = dy;
    return {dx, dgamma, dbeta, dresidual};
  }
};

struct BatchNorm : BatchNormBackward<BatchNorm> {
  static constexpr const char* name = "batch_norm";

  Tensor forward(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& residual, double eps,
                 Activation activation, const RunningStatistics& running) {
    eps_ = eps;
    const bool relu = activation == Activation::relu;
    const Tensor y = results_wanted() ? raw_empty_like(x) : Tensor();
    const Tensor result = y.defined() ? y : hollow_like(x);
    Tensor more = contiguous_or_none(residual);
    Tensor mean = Tensor::empty({x.size(1)}, DType::f64, x.device());
    Tensor variance = Tensor::empty({x.size(1)}, DType::f64, x.device());
    kernels::batch_norm(current_stream(x.device()), {.x = x.contiguous().view(),
                                                     .gamma = optional_view(gamma),
                                                     .beta = optional_view(beta),
                                                     .mean = mean,
                                                     .variance = variance,
                                                     .eps = eps,
                                                     .residual = optional_view(more),
                                                     .activation = activation,
                                                     .y = optional_view(y)});
    running.update(mean, variance, x.numel() == 0 ? 0 : x.numel() / x.size(1));
    save(x, gamma, beta, mean, variance, relu ? result : Tensor());
    return result;
  }
  TensorList backward(const TensorList& dy) { return gradients(dy[0], kernels::NormStatistics::batch); }
};

struct BatchNormInference : BatchNormBackward<BatchNormInference> {
  static constexpr const char* name = "batch_norm_inference";

  Tensor forward(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& residual,
                 const Tensor& mean, const Tensor& variance, double eps, Activation activation) {
    eps_ = eps;
    const bool relu = activation == Activation::relu;
    const Tensor y = results_wanted() ? raw_empty_like(x) : hollow_like(x);
    save(x, gamma, beta, mean, variance, relu ? y : Tensor());
    if (y.is_hollow()) return y;
    Tensor more = contiguous_or_none(residual);
    kernels::batch_norm_inference(current_stream(x.device()), {.x = x.contiguous().view(),
                                                               .gamma = optional_view(gamma),
                                                               .beta = optional_view(beta),
                                                               .mean = mean,
                                                               .variance = variance,
                                                               .eps = eps,
                                                               .residual = optional_view(more),
                                                               .activation = activation,
                                                               .y = y});
    return y;
  }
  TensorList backward(const TensorList& dy) {
    TensorList grads = gradients(dy[0], kernels::NormStatistics::running);
    grads.resize(6);  // none for the statistics
    return grads;
  }
};

void check_running(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& batches) {
  check(mean.defined() == variance.defined(), "batch_norm: running mean and variance go together");
  for (const Tensor& statistic : {mean, variance}) {
    if (!statistic.defined()) continue;
    check(statistic.shape() == Shape{x.size(1)}, "batch_norm: running statistics of shape ",
          statistic.shape(), " do not fit the channels of ", x.shape());
    check(!statistic.requires_grad(), "batch_norm: running statistics must not require grad");
  }
  check(!batches.defined() || (batches.dtype() == DType::i64 && batches.numel() == 1),
        "batch_norm: batches needs to be one i64");
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& running_mean,
                  const Tensor& running_variance, const BatchNormOptions& options) {
  check_given("batch_norm", x);
  const auto& [activation, residual] = options.epilogue;
  if (residual.defined() && residual.dtype() != x.dtype() && amp::autocast_dtype(x.device())) {
    BatchNormOptions alone = options;  // the sum is one of two dtypes, an operation of its own
    alone.epilogue = {};
    return activate(batch_norm(x, gamma, beta, running_mean, running_variance, alone) + residual, activation);
  }
  check_arguments(x, gamma, beta, options.epilogue, "batch_norm");
  check_running(x, running_mean, running_variance, options.batches);
  if (!options.training && running_mean.defined())
    return BatchNormInference::apply(x, gamma, beta, residual, running_mean, running_variance, options.eps,
                                     activation);
  check(x.numel() != x.size(1) || x.numel() == 0,
        "batch_norm: expected more than 1 value per channel when training, got ", x.shape());
  check(options.momentum || options.batches.defined() || !running_mean.defined(),
        "batch_norm: without a momentum, batches must be given");
  return BatchNorm::apply(
      x, gamma, beta, residual, options.eps, activation,
      RunningStatistics{running_mean, running_variance, options.batches, options.momentum});
}

Tensor composite::batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                             const Tensor& given_mean, const Tensor& given_variance, double eps) {
  Dims others{0};
  Shape per_channel = Dims::filled(x.rank(), 1);
  per_channel[1] = x.size(1);
  for (int d = 2; d < x.rank(); ++d) others.push_back(d);
  auto at_channels = [&](const Tensor& vector) { return vector.reshape(per_channel); };
  auto wide = [&](const Tensor& values, const Tensor& scale, const Tensor& shift) {
    auto given = [&](const Tensor& statistic) { return at_channels(cast(statistic, values.dtype())); };
    Tensor centred = values - (given_mean.defined() ? given(given_mean) : mean(values, others, true));
    Tensor variance = given_variance.defined() ? given(given_variance) : mean(square(centred), others, true);
    Tensor y = centred * rsqrt(variance + eps);
    if (scale.defined()) y = y * at_channels(scale);
    return shift.defined() ? y + at_channels(shift) : y;
  };
  return in_f32(wide, x, gamma, beta);
}

}  // namespace reprise
