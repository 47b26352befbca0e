// UrgentStream: an owned stream whose work goes first.
#pragma once

#include "reprise/core/cuda/stream_pool.h"

namespace reprise::cuda {

/// A stream of a device that nothing else uses, of high priority. It is kept and used again, as an OwnedStream is.
class UrgentStream {
 public:
  /// Error unless `device` is a CUDA device that is there.
  explicit UrgentStream(Device device) : stream_(take_stream(device, StreamPriority::high)) {}
  ~UrgentStream() { give_back(stream_, StreamPriority::high); }
  UrgentStream(const UrgentStream&) = delete;

  const Stream& get() const { return stream_; }  ///< valid as long as the owner lives

 private:
  Stream stream_;
};

}  // namespace reprise::cuda
