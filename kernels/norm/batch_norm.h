// Batch normalisation (Ioffe and Szegedy 2015): for each channel c of x (N, C, ...), over all samples and
// places,
//   y = (x - mean) * rstd * gamma + beta,   rstd = 1 / sqrt(variance + eps)
// Forward reads x twice and writes y: 3 elements for each of x; with given statistics 2. Backward reads dy
// and x twice and writes dx: 5; with given statistics, where x is read for dgamma alone, 2 to 4.
#pragma once

#include <optional>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// Where the statistics that x was normalised by come from.
enum class NormStatistics : uint8_t {
  batch,   ///< from x itself: they depend on it
  running  ///< from elsewhere: constants
};

// x, y, dy, dx are contiguous (N, C, ...) of one dtype. gamma, beta, dgamma, dbeta are (C), of any floating
// dtype and stride, each optional.

/// Normalises by the mean and the biased variance of x, which are written to `mean` and `variance`: f64,
/// contiguous (C), both 0 for an empty x. y is optional, and may be x.
extern Kernel<void(const TensorView& x, const TensorView& gamma, const TensorView& beta, double eps,
                   const TensorView& y, const TensorView& mean, const TensorView& variance)>
    batch_norm;

/// Normalises by given statistics, (C) of any floating dtype. y may be x.
extern Kernel<void(const TensorView& x, const TensorView& gamma, const TensorView& beta,
                   const TensorView& mean, const TensorView& variance, double eps, const TensorView& y)>
    batch_norm_inference;

/// The gradients of either, from the statistics it used, (C) of any floating dtype. dgamma and dbeta are
/// overwritten; each output is optional. dx may be dy.
extern Kernel<void(const TensorView& dy, const TensorView& x, const TensorView& gamma, const TensorView& mean,
                   const TensorView& variance, double eps, NormStatistics statistics, const TensorView& dx,
                   const TensorView& dgamma, const TensorView& dbeta)>
    batch_norm_backward;

/// running += momentum * (value - running) for the mean and the unbiased variance of a batch of `count` > 1
/// values a channel: mean and variance as `batch_norm` wrote them, running ones (C) of any floating dtype and
/// stride. `batches`, i64, one element, optional, grows by 1; without a momentum it is 1 / batches: the
/// average of all so far.
extern Kernel<void(const TensorView& mean, const TensorView& variance, int64_t count,
                   std::optional<double> momentum, const TensorView& running_mean,
                   const TensorView& running_variance, const TensorView& batches)>
    update_running_statistics;

}  // namespace reprise::kernels
