// Storage: the memory that a tensor and its views share, with a version that counts in-place writes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "reprise/core/memory.h"

namespace reprise {

namespace detail {
/// Whether this thread makes storages for inference; InferenceMode alone sets it.
inline thread_local bool storages_are_for_inference = false;
/// Captures of graphs that have begun and not ended; cuda::Graph alone counts them.
inline std::atomic<int> captures_in_progress{0};
}  // namespace detail

/// Memory that a tensor shares with its views. Tensor::storage gives it to operations and the engine, and it may change.
class Storage {
 public:
  /// Takes it from the device's allocator, not initialised, for the thread's MemoryCategory. OutOfMemory if there is none.
  Storage(size_t bytes, Device device)
      : device_(device), block_(allocator(device).allocate(bytes, current_memory_category())) {}
  ~Storage() { allocator(device_).release(block_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return block_.data; }                   ///< the first byte; null if there is none
  size_t bytes() const { return block_.bytes; }                ///< as asked for
  Device device() const { return device_; }                    ///< where it is
  MemoryCategory category() const { return block_.category; }  ///< that it is accounted to
  /// The stream it was made on: once released, its memory is used again by later work there.
  Stream stream() const { return Stream(device_, reinterpret_cast<void*>(block_.stream)); }
  /// Accounts it to another category from now on.
  void set_category(MemoryCategory category) { allocator(device_).move_to_category(block_, category); }
  /// Work on `stream` uses this memory, beside the stream it was made on: see Allocator.
  void record_stream(const Stream& stream) const { allocator(device_).record_stream(block_, stream); }
  /// Made in InferenceMode: no graph may keep it.
  bool is_for_inference() const { return is_for_inference_; }
  /// No other storage has or had it; one that was made later has a larger one.
  uint64_t id() const { return id_; }
  static uint64_t last_id() { return made_.load(std::memory_order_relaxed); }    ///< of the one made last
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }  ///< counts in-place writes
  /// Its data was written in place, or is about to be.
  void bump_version() {
    version_.fetch_add(1, std::memory_order_relaxed);
    note_capture();
  }
  /// The version is then beyond `other` as well: for memory that takes another's place.
  void bump_version_past(uint64_t other) {
    version_.store(std::max(version(), other) + 1, std::memory_order_relaxed);
    note_capture();
  }
  /// @{
  /// Counts one tensor more, or one fewer, of those of this memory that the program sees, and of the leaves that graphs know: see
  /// Tensor::show and set_fixed.
  void count_shown(int change) const { shown_.fetch_add(change, std::memory_order_relaxed); }
  void count_fixed(int change) const { fixed_.fetch_add(change, std::memory_order_relaxed); }
  int shown() const { return shown_.load(std::memory_order_relaxed); }
  int fixed() const { return fixed_.load(std::memory_order_relaxed); }
  /// @}
  /// Tensors that the program sees now do not have the value any longer that `op` gave one of them in a graph.
  void supersede(const char* op) const {
    superseded_by_.store(op, std::memory_order_relaxed);
    times_superseded_.fetch_add(1, std::memory_order_relaxed);
  }
  /// @{
  /// How often that happened, and the `op` of the last time, null if there was none.
  uint32_t times_superseded() const { return times_superseded_.load(std::memory_order_relaxed); }
  const char* superseded_by() const { return superseded_by_.load(std::memory_order_relaxed); }
  /// @}
  /// It was written while a graph was captured: launches may change it, and its version does not tell.
  bool may_be_written_by_graphs() const { return written_in_capture_.load(std::memory_order_relaxed); }

 private:
  void note_capture() {
    if (device_.is_cuda() && detail::captures_in_progress.load(std::memory_order_relaxed) > 0)
      written_in_capture_.store(true, std::memory_order_relaxed);
  }

  Device device_;
  MemoryBlock block_;
  uint64_t id_ = made_.fetch_add(1, std::memory_order_relaxed) + 1;
  std::atomic<uint64_t> version_{0};
  std::atomic<bool> written_in_capture_{false};
  mutable std::atomic<int> shown_{0}, fixed_{0};
  mutable std::atomic<uint32_t> times_superseded_{0};
  mutable std::atomic<const char*> superseded_by_{nullptr};
  bool is_for_inference_ = detail::storages_are_for_inference;
  inline static std::atomic<uint64_t> made_{0};
};

}  // namespace reprise
