// Adding up an allocator's events.
#include "reprise/nn/memory/memory_timeline.h"

#include <algorithm>
#include <numeric>

namespace reprise::nn {

size_t MemoryPoint::total() const {
  return std::accumulate(by_category.begin(), by_category.end(), size_t(0));
}

size_t MemoryPoint::activations() const {
  return by_category[size_t(MemoryCategory::activations)] + by_category[size_t(MemoryCategory::recompute)];
}

MemoryTimeline::MemoryTimeline(const std::array<size_t, memory_category_count>& at_first,
                               const std::vector<MemoryEvent>& events) {
  points_.reserve(events.size() + 1);
  points_.push_back({0, at_first});
  for (const MemoryEvent& event : events) {
    points_.push_back(points_.back());
    points_.back().seconds = event.seconds;
    points_.back().by_category[size_t(event.category)] += size_t(event.bytes);  // a negative count subtracts
  }
}

size_t MemoryTimeline::peak() const {
  size_t peak = 0;
  for (const MemoryPoint& point : points_) peak = std::max(peak, point.total());
  return peak;
}

size_t MemoryTimeline::peak_activations() const {
  size_t peak = 0;
  for (const MemoryPoint& point : points_) peak = std::max(peak, point.activations());
  return peak;
}

MemoryRecorder::MemoryRecorder(Device device)
    : allocator_(allocator(device)), at_first_(allocator_.stats().by_category) {
  allocator_.start_recording();
}

MemoryRecorder::~MemoryRecorder() {
  if (!finished_) allocator_.stop_recording();
}

MemoryTimeline MemoryRecorder::finish() {
  finished_ = true;
  return {at_first_, allocator_.stop_recording()};
}

}  // namespace reprise::nn
