// The streams that owners have given back, for the next ones.
#pragma once

#include "reprise/core/cuda/stream_priority.h"
#include "reprise/core/stream.h"

namespace reprise::cuda {

/// An idle stream, or a new one where none is idle. Error unless `device` is a CUDA device that is there.
Stream take_stream(Device device, StreamPriority priority);
/// Gives back a stream of take_stream, with the same priority.
void give_back(const Stream& stream, StreamPriority priority) noexcept;

}  // namespace reprise::cuda
