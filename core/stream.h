// Stream: where a kernel runs, in order. Every kernel takes one first; it says the device.
#pragma once

#include "reprise/core/device.h"

namespace reprise {

/// A queue of work on a device. On the CPU work is done before the call returns, so the handle is null.
class Stream {
 public:
  /// A name for a stream that is there already; cuda::OwnedStream makes one.
  explicit Stream(Device device, void* handle = nullptr) : device_(device), handle_(handle) {}
  Device device() const { return device_; }  ///< where its work is done
  void* handle() const { return handle_; }   ///< the cudaStream_t, null on the CPU
  friend bool operator==(const Stream&, const Stream&) = default;

 private:
  Device device_;
  void* handle_;
};

/// The stream that this thread's differentiable ops use on `device`. On a CUDA device all threads share one
/// until a cuda::StreamScope says otherwise; it is not the legacy default stream, so it can be captured.
Stream current_stream(Device device);

/// @{
/// Waits for all work on the stream, or on all streams of the device. Throws what kernels reported (see
/// core/cuda/error_slot.h).
void synchronize(const Stream& stream);
void synchronize(Device device);
/// @}

namespace detail {
/// Makes `stream` this thread's current stream of its device; returns the previous one.
Stream exchange_current_stream(const Stream& stream);
}  // namespace detail

}  // namespace reprise
