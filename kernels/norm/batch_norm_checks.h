// What batch normalisation checks, on any device, and how it sees its tensors.
#pragma once

#include "reprise/kernels/norm/batch_norm.h"
#include "reprise/kernels/row_checks.h"

namespace reprise::kernels {

/// (N, C, ...) as three numbers.
struct ChannelShape {
  int64_t samples, channels, spatial;
  int64_t count() const { return samples * spatial; }  ///< values per channel
};

/// Error unless the views fit together. `written`: the kernel writes the statistics.
ChannelShape check_batch_norm(const char* op, const BatchNormArguments& arguments, bool written);
ChannelShape check_batch_norm_backward(const BatchNormBackwardArguments& arguments);

/// Error unless running statistics can be updated by those of a batch.
void check_running_statistics(const RunningStatisticsArguments& arguments, int64_t count,
                              std::optional<double> momentum);

}  // namespace reprise::kernels
