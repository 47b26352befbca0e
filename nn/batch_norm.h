// Batch normalisation as a layer: parameters, running statistics and their names in a state dict are
// PyTorch's.
#pragma once

#include <optional>

#include "reprise/autograd/ops.h"
#include "reprise/nn/described.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// How batches are normalised and what is kept of them; the defaults are PyTorch's.
struct BatchNormLayerOptions {
  double eps = 1e-5;                     ///< added to the variance
  std::optional<double> momentum = 0.1;  ///< share of a batch in the running statistics; none: their average
  bool affine = true;                    ///< has weight and bias
  bool track_running_stats = true;       ///< if not, evaluation normalises by the batch too
};

/// What BatchNorm1d and BatchNorm2d share (Ioffe and Szegedy 2015). In training it normalises by the batch,
/// by its biased variance, and updates the running statistics, by the unbiased one; evaluation normalises by
/// these. Under a checkpoint the state changes in the first run only. An empty batch changes nothing. Error
/// on one value per channel where the batch normalises.
class BatchNorm : public Layer, public Described {
 public:
  Tensor forward(const Tensor& x) override { return normed(x, {}); }
  /// With a fused residual, relu, or both: relu(norm(x) + residual).
  Tensor forward(const Tensor& x, const BatchNormEpilogue& fused);
  std::string extra_repr() const override;

  Tensor weight;               ///< (channels), 1 at first; undefined if not affine
  Tensor bias;                 ///< (channels), 0 at first; undefined if not affine
  Tensor running_mean;         ///< buffer (channels), 0 at first; undefined if not tracked
  Tensor running_var;          ///< buffer (channels), 1 at first; undefined if not tracked
  Tensor num_batches_tracked;  ///< buffer: i64, one number; undefined if not tracked

 protected:
  /// What a subclass accepts as x.
  struct Inputs {
    const char* name;  ///< of the class, for errors
    const char* form;  ///< its shapes in words, for errors
    int least_rank;    ///< of x, at least
    int most_rank;     ///< of x, at most
  };
  bool is_norm() const override { return true; }
  /// Parameters and statistics in f32. Error if `channels` is not positive, or if `momentum` is not the default where
  /// nothing is tracked.
  BatchNorm(const Inputs& inputs, int64_t channels, const BatchNormLayerOptions& options, Device device);

 private:
  Tensor normed(const Tensor& x, const BatchNormEpilogue& fused);

  Inputs inputs_;
  int64_t channels_;
  BatchNormLayerOptions options_;
};

/// Normalises (N, C) or (N, C, L): `BatchNorm1d norm(64)`.
class BatchNorm1d : public BatchNorm {
 public:
  /// Parameters and statistics in f32. Error if `channels` is not positive, or if `momentum` is not the default where
  /// nothing is tracked.
  explicit BatchNorm1d(int64_t channels, const BatchNormLayerOptions& options = {}, Device device = {})
      : BatchNorm({"BatchNorm1d", "(N, C) or (N, C, L)", 2, 3}, channels, options, device) {}
};

/// Normalises images (N, C, H, W): `BatchNorm2d norm(64, {.momentum = 0.01})`.
class BatchNorm2d : public BatchNorm {
 public:
  /// Parameters and statistics in f32. Error if `channels` is not positive, or if `momentum` is not the default where
  /// nothing is tracked.
  explicit BatchNorm2d(int64_t channels, const BatchNormLayerOptions& options = {}, Device device = {})
      : BatchNorm({"BatchNorm2d", "(N, C, H, W)", 4, 4}, channels, options, device) {}
};

}  // namespace reprise::nn
