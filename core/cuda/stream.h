// Owned streams, and the scope that sets the current stream.
//
//   cuda::OwnedStream side(device);
//   {
//     cuda::StreamScope scope(side.get());
//     y = model(x);   // on the side stream
//   }
//   cuda::Event done(device);
//   done.record(side.get());
//   done.make_wait(current_stream(device));
#pragma once

#include <utility>

#include "reprise/core/stream.h"

namespace reprise::cuda {

/// A stream of a device that nothing else uses. Streams are kept and used again, never destroyed: memory
/// remembers the stream that it was asked for on (see Allocator).
class OwnedStream {
 public:
  explicit OwnedStream(Device device);  ///< Error unless `device` is a CUDA device that is there
  ~OwnedStream();
  OwnedStream(OwnedStream&& other) noexcept : stream_(std::exchange(other.stream_, Stream(Device::cpu()))) {}
  OwnedStream& operator=(OwnedStream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }

  const Stream& get() const { return stream_; }  ///< valid as long as the owner lives

 private:
  Stream stream_;
};

/// Makes `stream` this thread's current stream of its device while it lives. It orders nothing: what runs
/// inside on tensors from outside needs an Event, and record_stream where it may outlive them.
class StreamScope {
 public:
  /// The innermost scope counts.
  explicit StreamScope(const Stream& stream) : previous_(detail::exchange_current_stream(stream)) {}
  ~StreamScope() { detail::exchange_current_stream(previous_); }
  StreamScope(const StreamScope&) = delete;

 private:
  Stream previous_;
};

}  // namespace reprise::cuda
