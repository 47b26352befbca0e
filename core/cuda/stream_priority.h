// StreamPriority: whose work goes first where a device has more to do than it has room for.
#pragma once

#include <cstdint>

namespace reprise::cuda {

/// Blocks of kernels on a stream of high priority go before those of others that wait.
enum class StreamPriority : uint8_t { normal, high };

/// A stream (runtime.h) of that priority: of high, the greatest that the device has.
void* create_stream(int device, StreamPriority priority);

}  // namespace reprise::cuda
