// OffloadStats: what an Offload did, in bytes, counts and seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace reprise::recompute {

/// What an Offload did so far, on all devices.
struct OffloadStats {
  size_t offloaded_bytes = 0;       ///< off the device now
  size_t peak_offloaded_bytes = 0;  ///< off the device at most
  size_t reserved_bytes = 0;        ///< host memory or file that is reserved for offloading
  uint64_t written_bytes = 0;       ///< copied off the device, in all
  uint64_t read_bytes = 0;          ///< copied back, in all
  uint64_t prefetch_hits = 0;       ///< fetches of what was on its way back already
  uint64_t prefetch_misses = 0;     ///< fetches of what was not
  uint64_t failures = 0;            ///< tensors that stayed because there was no room
  double seconds_waited = 0;        ///< by the device's streams for copies; by the CPU for its file
};

/// The one place where what happens is counted, by the part that it happens to.
class OffloadTally {
 public:
  /// As of now.
  OffloadStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  /// Calls `edit(stats)` while nothing else reads or writes them.
  void change(const auto& edit) {
    std::lock_guard lock(mutex_);
    edit(stats_);
  }

 private:
  mutable std::mutex mutex_;
  OffloadStats stats_;
};

}  // namespace reprise::recompute
