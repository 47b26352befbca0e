// Event: a point in a stream, for other streams and the host to wait for, and to measure time between.
#pragma once

#include <utility>

#include "reprise/core/stream.h"

namespace reprise::cuda {

/// A point in a stream of a CUDA device, recorded as often as one likes: the last time counts.
class Event {
 public:
  /// Whether `seconds_between` may be asked of it; without, recording and waiting are cheaper.
  enum class Timing { off, on };

  /// Not recorded yet. Error unless `device` is a CUDA device that is there.
  explicit Event(Device device, Timing timing = Timing::off);
  ~Event();
  Event(Event&& other) noexcept : device_(other.device_), handle_(std::exchange(other.handle_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }

  Device device() const { return device_; }    ///< whose streams it may be recorded on
  void record(const Stream& stream);           ///< the point after all that is on the stream now
  void make_wait(const Stream& stream) const;  ///< what comes later on `stream` waits for the point
  bool is_done() const;                        ///< true if it was never recorded
  void synchronize() const;                    ///< the host waits

  /// The time between two finished events with timing on.
  friend double seconds_between(const Event& begin, const Event& end);

 private:
  Device device_;
  void* handle_ = nullptr;
};

}  // namespace reprise::cuda
