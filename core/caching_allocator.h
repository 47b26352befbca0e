// CachingAllocator: what the allocators of all devices have in common. Freed blocks are kept by size and
// handed out again, so a training loop asks the system for memory in its first steps only.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>

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
  struct Waiting {                           // released, but still in use on other streams
    MemoryBlock block;
    std::vector<void*> fences;
  };

  void* from_system(const MemoryBlock& block);
  [[noreturn]] void refuse(const MemoryBlock& block, const char* who) const;
  void account(int64_t bytes, MemoryCategory category);
  void keep(const MemoryBlock& block);
  void give_back(void* data, size_t bytes);
  void collect_waiting(bool wait);
  void drop_cache();
  bool is_graph_pool(uintptr_t pool) const { return pool % 2 == 1; }  // a stream's handle is an address

  const std::unique_ptr<MemorySource> source_;
  mutable std::mutex mutex_;
  MemoryStats stats_;
  size_t limit_ = 0;
  std::multimap<Key, void*> free_;
  std::multimap<void*, uintptr_t> other_streams_;  // by block: where it is used beside its own stream
  std::vector<Waiting> waiting_;
  std::map<uintptr_t, uintptr_t> entered_;  // from a stream to the pool that it takes memory from
  std::set<uintptr_t> graph_pools_;
  std::multimap<uintptr_t, std::pair<void*, size_t>> held_;  // by graph pool: released, but not reused
  uintptr_t next_graph_pool_ = 1;
  bool recording_ = false;
  std::chrono::steady_clock::time_point started_;
  std::vector<MemoryEvent> events_;
};

}  // namespace reprise
