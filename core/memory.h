// Memory: one caching allocator for each device, with exact accounting by category, an optional hard limit
// and an event log. Every byte a tensor holds goes through here.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/core/device.h"
#include "reprise/core/error.h"
#include "reprise/core/fork.h"
#include "reprise/core/stream.h"

namespace reprise {

/// What memory is for.
enum class MemoryCategory : uint8_t {
  parameters,   ///< parameters and buffers of modules, and their 16-bit values
  gradients,    ///< `grad` of leaves
  optimizer,    ///< the state of optimizers, and averages of weights
  activations,  ///< what no scope claims: results, and what is saved for backward
  recompute,    ///< what replays make
  workspace,    ///< scratch memory of kernels, of collectives and of writing files
  data          ///< batches
};
inline constexpr int memory_category_count = 7;     ///< the enumerators of MemoryCategory
std::string_view name_of(MemoryCategory category);  ///< "parameters", ...

/// The memory asked for is not there. The message says what was asked, what is held, and by which category.
class OutOfMemory : public Error {
 public:
  using Error::Error;
};

/// Bytes. `allocated` is what live tensors asked for, `held` the blocks they have, which are a little larger,
/// and `reserved` adds blocks kept for reuse: those go first when a limit is near, so that what has `held` at
/// most a limit runs under it.
struct MemoryStats {
  size_t allocated = 0;       ///< asked for by live tensors
  size_t peak_allocated = 0;  ///< the most that `allocated` was since reset_peaks
  size_t held = 0;            ///< bytes of the blocks that these have; a budget is of it
  size_t peak_held = 0;       ///< the most that `held` was
  size_t reserved = 0;        ///< `held`, and blocks kept for reuse; a limit is of it
  size_t peak_reserved = 0;   ///< the most that `reserved` was
  std::array<size_t, memory_category_count> by_category{};       ///< of `allocated`
  std::array<size_t, memory_category_count> peak_by_category{};  ///< each category's own peak
  uint64_t allocations = 0;                                      ///< requests served
  uint64_t system_allocations = 0;  ///< of these, the ones that went to the system
  int64_t live_blocks = 0;          ///< handed out and not released
};

/// One allocation (positive bytes) or release (negative), for timelines.
struct MemoryEvent {
  double seconds = 0;                                     ///< since the recording began
  int64_t bytes = 0;                                      ///< asked for, not held; negative for a release
  MemoryCategory category = MemoryCategory::activations;  ///< that they are accounted to
};

/// What `Allocator::allocate` hands out.
struct MemoryBlock {
  void* data = nullptr;                                   ///< null for 0 bytes
  size_t bytes = 0;                                       ///< asked for
  size_t held_bytes = 0;                                  ///< taken from the system for it
  MemoryCategory category = MemoryCategory::activations;  ///< that the bytes are accounted to
  uintptr_t stream = 0;                                   ///< the handle of the stream it was asked for on
  uintptr_t pool = 0;  ///< what it goes back to: that stream, or the pool of a graph
};

class MemorySource;

/// One per device, for as long as the process lives. Freed blocks are kept by size and handed out again, so a
/// training loop asks the system for memory in its first steps only.
///
/// On a CUDA device memory follows streams: a block belongs to the stream that was current when it was asked
/// for, and once released it is handed out again on that stream at once, for later work there comes after
/// whatever still uses it. Work on another stream must be made known by `record_stream`.
class Allocator {
 public:
  MemoryStats stats() const;     ///< as of now
  void reset_peaks();            ///< peaks restart from what is held now
  void set_limit(size_t bytes);  ///< hard limit on `reserved`; 0 means none
  size_t limit() const;          ///< 0: none
  /// What a block for so many bytes holds: blocks come in few sizes.
  size_t block_size(size_t bytes) const;
  void empty_cache();      ///< gives blocks kept for reuse back to the system
  void start_recording();  ///< of all allocations and releases from now on; forgets an earlier recording
  std::vector<MemoryEvent> stop_recording();  ///< what happened since, in order

  // What follows is for storages and graphs, and may change.

  explicit Allocator(std::unique_ptr<MemorySource> source);  ///< over the memory of one device
  ~Allocator();

  /// At least `bytes` bytes, 64-byte aligned (256 on CUDA), not initialised; null data for 0 bytes. Throws
  /// OutOfMemory.
  MemoryBlock allocate(size_t bytes, MemoryCategory category);
  void release(const MemoryBlock& block) noexcept;                     ///< to be handed out again
  void move_to_category(MemoryBlock& block, MemoryCategory category);  ///< accounts its bytes anew
  /// Once released, the block is not handed out again before what is on `stream` then has run.
  void record_stream(const MemoryBlock& block, const Stream& stream);

  /// From now on what is asked for on `stream` comes from a new pool of its own, until `leave_pool`: a graph
  /// that is captured runs again and again on the memory that it was captured with.
  uintptr_t enter_pool(const Stream& stream);
  void leave_pool(const Stream& stream);  ///< what is asked for on `stream` is the stream's own again
  /// Gives the pool's memory back to the system, blocks that are still held once they are released. The
  /// graph's work must have run. Blocks from before that were released in between are free from now on: the graph may
  /// have used them in each of its launches.
  void dissolve_pool(uintptr_t pool);

 private:
  using Key = std::pair<uintptr_t, size_t>;  // pool and size
  struct Alike {                             // blocks of one pool and size
    std::vector<void*> free;                 // with room for all of them: releasing one takes no memory
    size_t count = 0;                        // from the system, free or not
  };
  struct Shared {  // in use on streams beside its own
    MemoryBlock block;
    std::vector<uintptr_t> streams;
    std::vector<void*> fences;  // with room for one per stream
    uintptr_t graph = 0;        // the pool of the graph that it is held for
  };
  using SharedBlocks = std::map<void*, Shared>;  // by address

  void* from_system(const MemoryBlock& block, Alike& alike);
  [[noreturn]] void refuse(const MemoryBlock& block, const char* who) const;
  void account(int64_t bytes, MemoryCategory category);
  void keep(const MemoryBlock& block);
  uintptr_t graph_that_uses(const MemoryBlock& block, const std::vector<uintptr_t>& streams) const;
  void keep_after_fences(SharedBlocks::node_type shared) noexcept;
  void give_back(const Key& key, Alike& alike, void* data);
  void reserve_events(size_t more);
  void collect_waiting(bool wait);
  void drop_cache();
  bool is_graph_pool(uintptr_t pool) const { return pool % 2 == 1; }  // a stream's handle is an address

  const std::unique_ptr<MemorySource> source_;
  mutable ForkSafeMutex mutex_;
  MemoryStats stats_;
  size_t limit_ = 0;
  std::map<Key, Alike> blocks_;
  SharedBlocks shared_;                     // of live blocks
  SharedBlocks waiting_;                    // released, but not past their fences
  SharedBlocks held_;                       // released, but kept for a graph
  std::map<uintptr_t, uintptr_t> entered_;  // from a stream to the pool that it takes memory from
  std::set<uintptr_t> graph_pools_;
  uintptr_t next_graph_pool_ = 1;
  bool recording_ = false;
  std::chrono::steady_clock::time_point started_;
  std::vector<MemoryEvent> events_;
};

/// The allocator of a device.
Allocator& allocator(Device device);

/// Tensors made on this thread while it lives are accounted to `category`. The default is activations.
class MemoryScope {
 public:
  explicit MemoryScope(MemoryCategory category);  ///< the innermost scope counts
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;

 private:
  MemoryCategory previous_;
};
MemoryCategory current_memory_category();  ///< that of the thread's innermost MemoryScope

}  // namespace reprise
