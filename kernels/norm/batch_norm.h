// Batch normalisation (Ioffe and Szegedy 2015): for each channel c of x (N, C, ...), over all samples and
// places,
//   y = activation((x - mean) * rstd * gamma + beta + residual),   rstd = 1 / sqrt(variance + eps)
// Forward reads x twice and writes y: 3 elements for each of x; with given statistics 2. Backward reads dy
// and x twice and writes dx: 5; with given statistics, where x is read for dgamma alone, 2 to 4. A residual is
// read once, its gradient written once; backward through relu reads y wherever it reads dy, so that neither
// the argument of relu nor a mask is kept.
#pragma once

#include <optional>

#include "reprise/kernels/elementwise/activation.h"
#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// Where the statistics that x was normalised by come from.
enum class NormStatistics : uint8_t {
  batch,   ///< from x itself: they depend on it
  running  ///< from elsewhere: constants
};

/// x, residual and y are contiguous (N, C, ...) of one dtype. y may be x or residual.
struct BatchNormArguments {
  TensorView x;
  TensorView gamma{}, beta{};  ///< (C), of any floating dtype and stride, each optional
  TensorView mean, variance;   ///< (C)
  double eps = 0;
  TensorView residual{};                     ///< optional
  Activation activation = Activation::none;  ///< none or relu
  TensorView y{};
};

/// Normalises by the mean and the biased variance of x, which are written to `mean` and `variance`: f64,
/// contiguous, both 0 for an empty x. y is optional.
extern Kernel<void(const BatchNormArguments& arguments)> batch_norm;

/// Normalises by given statistics, of any floating dtype.
extern Kernel<void(const BatchNormArguments& arguments)> batch_norm_inference;

/// The gradients of either, from the statistics it used, of any floating dtype. dgamma and dbeta, like gamma,
/// are overwritten; each output is optional. dx or dresidual may be dy.
struct BatchNormBackwardArguments {
  TensorView dy, x;
  TensorView y{};  ///< the result, of a forward with relu; absent without an activation
  TensorView gamma{};
  TensorView mean, variance;
  double eps = 0;
  NormStatistics statistics = NormStatistics::batch;
  TensorView dx{}, dgamma{}, dbeta{}, dresidual{};
};
extern Kernel<void(const BatchNormBackwardArguments& arguments)> batch_norm_backward;

/// running += momentum * (value - running) for the mean and the unbiased variance of a batch of `count` > 1
/// values per channel. `batches` grows by 1; without a momentum it is 1 / batches: the average of all so far.
struct RunningStatisticsArguments {
  TensorView mean, variance;                  ///< as `batch_norm` wrote them
  TensorView running_mean, running_variance;  ///< (C), of any floating dtype and stride
  TensorView batches{};                       ///< i64, one element, optional
};
extern Kernel<void(const RunningStatisticsArguments& arguments, int64_t count,
                   std::optional<double> momentum)>
    update_running_statistics;

}  // namespace reprise::kernels
