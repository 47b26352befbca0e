// Memory: one caching allocator for each device, with exact accounting by category, an optional hard limit
// and an event log. Every byte a tensor holds goes through here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "reprise/core/device.h"
#include "reprise/core/error.h"
#include "reprise/core/stream.h"

namespace reprise {

enum class MemoryCategory : uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  recompute,
  workspace,
  data
};
inline constexpr int memory_category_count = 7;
std::string_view name_of(MemoryCategory category);

/// The memory asked for is not there. The message says what was asked, what is held, and by which category.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Bytes. `allocated` is what live tensors asked for, `held` the blocks they have, which are a little larger,
/// and `reserved` adds blocks kept for reuse: those go first when a limit is near, so that what has `held` at
/// most a limit runs under it.
struct MemoryStats {
  size_t allocated = 0, peak_allocated = 0, held = 0, peak_held = 0, reserved = 0, peak_reserved = 0;
  std::array<size_t, memory_category_count> by_category{};       ///< of `allocated`
  std::array<size_t, memory_category_count> peak_by_category{};  ///< each category's own peak
  uint64_t allocations = 0;                                      ///< requests served
  uint64_t system_allocations = 0;  ///< of these, the ones that went to the system
  int64_t live_blocks = 0;
};

/// One allocation (positive bytes) or release (negative), for timelines.
struct MemoryEvent {
  double seconds = 0;  ///< since the recording began
  int64_t bytes = 0;
  MemoryCategory category = MemoryCategory::activations;
};

struct MemoryBlock {
  void* data = nullptr;
  size_t bytes = 0;           ///< asked for
  size_t reserved_bytes = 0;  ///< held
  MemoryCategory category = MemoryCategory::activations;
  uintptr_t stream = 0;  ///< the handle of the stream it was asked for on
  uintptr_t pool = 0;    ///< what it goes back to: that stream, or the pool of a graph
};

/// On a CUDA device memory follows streams: a block belongs to the stream that was current when it was asked
/// for, and once released it is handed out again on that stream at once, for later work there comes after
/// whatever still uses it. Work on another stream must be made known by `record_stream`.
class Allocator {
 public:
  virtual ~Allocator() = default;

  /// At least `bytes` bytes, 64-byte aligned (256 on CUDA), not initialised; null data for 0 bytes. Throws
  /// OutOfMemory.
  virtual MemoryBlock allocate(size_t bytes, MemoryCategory category) = 0;
  virtual void release(const MemoryBlock& block) noexcept = 0;
  virtual void move_to_category(MemoryBlock& block, MemoryCategory category) = 0;
  /// Once released, the block is not handed out again before what is on `stream` then has run.
  virtual void record_stream(const MemoryBlock& block, const Stream& stream) = 0;

  /// From now on what is asked for on `stream` comes from a new pool of its own, until `leave_pool`: a graph
  /// that is captured runs again and again on the memory that it was captured with.
  virtual uintptr_t enter_pool(const Stream& stream) = 0;
  virtual void leave_pool(const Stream& stream) = 0;
  /// Gives the pool's memory back to the system, blocks that are still held once they are released. The
  /// graph's work must have run.
  virtual void dissolve_pool(uintptr_t pool) = 0;

  virtual MemoryStats stats() const = 0;
  virtual void reset_peaks() = 0;            ///< peaks restart from what is held now
  virtual void set_limit(size_t bytes) = 0;  ///< hard limit on `reserved`; 0 means none
  virtual size_t limit() const = 0;
  virtual void empty_cache() = 0;  ///< gives blocks kept for reuse back to the system
  virtual void start_recording() = 0;
  virtual std::vector<MemoryEvent> stop_recording() = 0;
};

/// The allocator of a device. It lives as long as the process.
Allocator& allocator(Device device);

/// Tensors made on this thread while it lives are accounted to `category`. The default is activations.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
};
MemoryCategory current_memory_category();

}  // namespace reprise
