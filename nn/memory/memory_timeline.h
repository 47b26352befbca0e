// MemoryTimeline: what an allocator held over a stretch of time, by category, from its event log.
#pragma once

#include <array>
#include <vector>

#include "reprise/core/memory.h"

namespace reprise::nn {

/// A moment at which memory changed.
struct MemoryPoint {
  double seconds = 0;                                       ///< since the recording began
  std::array<size_t, memory_category_count> by_category{};  ///< bytes that tensors have from then on
  size_t total() const;                                     ///< of all categories
  /// Bytes of activations and of what recompute makes in their place.
  size_t activations() const;
};

/// The memory of a device over a stretch of time.
class MemoryTimeline {
 public:
  MemoryTimeline() : points_(1) {}  ///< of nothing
  /// From what was held at first and every change since.
  MemoryTimeline(const std::array<size_t, memory_category_count>& at_first,
                 const std::vector<MemoryEvent>& events);

  /// The start, then one for each change.
  const std::vector<MemoryPoint>& points() const { return points_; }
  const MemoryPoint& end() const { return points_.back(); }  ///< after the last change
  size_t peak() const;                                       ///< of all categories together
  size_t peak_activations() const;                           ///< of activations and recompute together

 private:
  std::vector<MemoryPoint> points_;
};

/// Records while it lives; one at a time for each device.
class MemoryRecorder {
 public:
  explicit MemoryRecorder(Device device);  ///< begins; forgets what the device's allocator recorded before
  ~MemoryRecorder();
  MemoryRecorder(const MemoryRecorder&) = delete;

  MemoryTimeline finish();  ///< ends; call it once

 private:
  Allocator& allocator_;
  std::array<size_t, memory_category_count> at_first_;
  bool finished_ = false;
};

}  // namespace reprise::nn
