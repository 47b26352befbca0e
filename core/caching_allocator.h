// CachingAllocator: what the allocators of all devices have in common. Freed blocks are kept by size and
// handed out again, so a training loop asks the system for memory in its first steps only.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <set>

#include "reprise/core/fork.h"
#include "reprise/core/memory_source.h"

namespace reprise {

class CachingAllocator final : public Allocator {
 public:
  explicit CachingAllocator(std::unique_ptr<MemorySource> source) : source_(std::move(source)) {}

  MemoryBlock allocate(size_t bytes, MemoryCategory category) override;
  void release(const MemoryBlock& block) noexcept override;
  void move_to_category(MemoryBlock& block, MemoryCategory category) override;
  void record_stream(const MemoryBlock& block, const Stream& stream) override;

  uintptr_t enter_pool(const Stream& stream) override;
  void leave_pool(const Stream& stream) override;
  void dissolve_pool(uintptr_t pool) override;

  MemoryStats stats() const override;
  void reset_peaks() override;
  void set_limit(size_t bytes) override;
  size_t limit() const override;
  void empty_cache() override;
  void start_recording() override;
  std::vector<MemoryEvent> stop_recording() override;

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
  };
  using SharedBlocks = std::map<void*, Shared>;  // by address

  void* from_system(const MemoryBlock& block, Alike& alike);
  [[noreturn]] void refuse(const MemoryBlock& block, const char* who) const;
  void account(int64_t bytes, MemoryCategory category);
  void keep(const MemoryBlock& block);
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

}  // namespace reprise
