#include "reprise/core/cuda/stream.h"

#include "reprise/core/cuda/stream_pool.h"

namespace reprise::cuda {

OwnedStream::OwnedStream(Device device) : stream_(take_stream(device, StreamPriority::normal)) {}

OwnedStream::~OwnedStream() {
  if (stream_.device().is_cuda()) give_back(stream_, StreamPriority::normal);
}

}  // namespace reprise::cuda
