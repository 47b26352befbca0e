// Stream: where a kernel runs, in order. Every kernel takes one first; it says the device.
#pragma once

#include "reprise/core/device.h"

namespace reprise {

/// A queue of work on a device. On the CPU work is done before the call returns, so the handle is null.
class Stream {
 public:
  explicit Stream(Device device, void* handle = nullptr) : device_(device), handle_(handle) {}
  Device device() const { return device_; }
  void* handle() const { return handle_; }  ///< the cudaStream_t, null on the CPU

 private:
  Device device_;
  void* handle_;
};

/// The stream that differentiable ops use on `device`.
inline Stream current_stream(Device device) { return Stream(device); }

}  // namespace reprise
