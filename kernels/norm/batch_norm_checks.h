// What batch normalisation checks, on any device, and how it sees its tensors.
#pragma once

#include <optional>

#include "reprise/kernels/row_checks.h"

namespace reprise::kernels {

/// (N, C, ...) as three numbers.
struct ChannelShape {
  int64_t samples, channels, spatial;
  int64_t count() const { return samples * spatial; }  ///< values a channel
};

/// The views of all kernels of batch normalisation; absent ones are not checked.
struct BatchNormViews {
  const TensorView &x, &gamma, &mean, &variance;
  TensorView beta{}, y{}, dy{}, dx{}, dgamma{}, dbeta{};
};

/// Error unless the views fit together. `written`: the kernel writes the statistics.
ChannelShape check_batch_norm(const char* op, const BatchNormViews& views, bool written);

/// Error unless running statistics can be updated by those of a batch.
void check_running_statistics(const TensorView& mean, const TensorView& variance, int64_t count,
                              std::optional<double> momentum, const TensorView& running_mean,
                              const TensorView& running_variance, const TensorView& batches);

}  // namespace reprise::kernels
