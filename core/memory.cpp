// The CPU's caching allocator: freed blocks are kept by size and handed out again, so a training loop asks
// the system for memory in its first step only.
#include "reprise/core/memory.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <mutex>

namespace reprise {
namespace {

constexpr size_t alignment = 64;
constexpr size_t huge_page = size_t(2) << 20;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

// Small requests round to 64 bytes, large ones to 1/16 of their size: blocks of nearly equal size are
// interchangeable.
size_t size_class(size_t bytes) {
  size_t step = alignment;
  while (step * 16 < bytes) step *= 2;
  return round_up(bytes, step);
}

class CpuAllocator final : public Allocator {
 public:
  MemoryBlock allocate(size_t bytes, MemoryCategory category) override {
    if (bytes == 0) return {nullptr, 0, 0, category};
    std::lock_guard lock(mutex_);
    MemoryBlock block{nullptr, bytes, size_class(bytes), category};
    auto cached = free_.find(block.reserved_bytes);
    if (cached != free_.end()) {
      block.data = cached->second;
      free_.erase(cached);
    } else {
      block.data = from_system(block);
    }
    account(int64_t(bytes), category);
    ++stats_.allocations;
    ++stats_.live_blocks;
    return block;
  }

  void release(const MemoryBlock& block) noexcept override {
    if (!block.data) return;
    std::lock_guard lock(mutex_);
    free_.emplace(block.reserved_bytes, block.data);
    account(-int64_t(block.bytes), block.category);
    --stats_.live_blocks;
  }

  void move_to_category(MemoryBlock& block, MemoryCategory category) override {
    std::lock_guard lock(mutex_);
    account(-int64_t(block.bytes), block.category);
    account(int64_t(block.bytes), category);
    block.category = category;
  }

  MemoryStats stats() const override {
    std::lock_guard lock(mutex_);
    return stats_;
  }

  void reset_peaks() override {
    std::lock_guard lock(mutex_);
    stats_.peak_allocated = stats_.allocated;
    stats_.peak_reserved = stats_.reserved;
    stats_.peak_by_category = stats_.by_category;
  }

  void set_limit(size_t bytes) override {
    std::lock_guard lock(mutex_);
    limit_ = bytes;
    if (limit_ && stats_.reserved > limit_) drop_cache();
  }

  size_t limit() const override {
    std::lock_guard lock(mutex_);
    return limit_;
  }

  void empty_cache() override {
    std::lock_guard lock(mutex_);
    drop_cache();
  }

  void start_recording() override {
    std::lock_guard lock(mutex_);
    recording_ = true;
    events_.clear();
    started_ = std::chrono::steady_clock::now();
  }

  std::vector<MemoryEvent> stop_recording() override {
    std::lock_guard lock(mutex_);
    recording_ = false;
    return std::move(events_);
  }

 private:
  void* from_system(const MemoryBlock& block) {
    size_t bytes = block.reserved_bytes;
    if (limit_ && stats_.reserved + bytes > limit_) drop_cache();
    if (limit_ && stats_.reserved + bytes > limit_) refuse(block, "the limit");
    bool large = bytes >= 2 * huge_page;
    size_t rounded = round_up(bytes, alignment);
    void* data =
        std::aligned_alloc(large ? huge_page : alignment, large ? round_up(bytes, huge_page) : rounded);
    if (!data && !free_.empty()) {
      drop_cache();
      return from_system(block);
    }
    if (!data) refuse(block, "the system");
    if (large) madvise(data, bytes, MADV_HUGEPAGE);  // advice only: failing costs speed, nothing else
    stats_.reserved += bytes;
    stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
    ++stats_.system_allocations;
    return data;
  }

  [[noreturn]] void refuse(const MemoryBlock& block, const char* who) const {
    std::ostringstream text;
    text << "out of memory on cpu: " << block.bytes << " bytes of " << name_of(block.category)
         << " refused by " << who;
    if (limit_) text << " of " << limit_ << " bytes";
    text << "; held: " << stats_.allocated << " bytes";
    for (int i = 0; i < memory_category_count; ++i) {
      size_t held = stats_.by_category[size_t(i)];
      if (held) text << ", " << name_of(MemoryCategory(i)) << ' ' << held;
    }
    throw OutOfMemory(text.str());
  }

  void drop_cache() {
    for (auto [bytes, data] : free_) {
      std::free(data);
      stats_.reserved -= bytes;
    }
    free_.clear();
  }

  void account(int64_t bytes, MemoryCategory category) {
    size_t& held = stats_.by_category[size_t(category)];
    size_t& peak = stats_.peak_by_category[size_t(category)];
    stats_.allocated += size_t(bytes);  // a negative count wraps to the right subtraction
    held += size_t(bytes);
    stats_.peak_allocated = std::max(stats_.peak_allocated, stats_.allocated);
    peak = std::max(peak, held);
    if (!recording_) return;
    std::chrono::duration<double> since = std::chrono::steady_clock::now() - started_;
    events_.push_back({since.count(), bytes, category});
  }

  mutable std::mutex mutex_;
  MemoryStats stats_;
  size_t limit_ = 0;
  std::multimap<size_t, void*> free_;
  bool recording_ = false;
  std::chrono::steady_clock::time_point started_;
  std::vector<MemoryEvent> events_;
};

thread_local MemoryCategory category_now = MemoryCategory::activations;

}  // namespace

std::string_view name_of(MemoryCategory category) {
  constexpr std::string_view names[] = {"parameters", "gradients", "optimizer", "activations",
                                        "recompute",  "workspace", "data"};
  return names[size_t(category)];
}

Allocator& allocator(Device device) {
  check(device.type == DeviceType::cpu, "memory: no allocator for device ", device);
  static CpuAllocator* cpu = new CpuAllocator;  // never destroyed: tensors in statics may outlive any order
  return *cpu;
}

MemoryScope::MemoryScope(MemoryCategory category) : previous_(category_now) { category_now = category; }
MemoryScope::~MemoryScope() { category_now = previous_; }
MemoryCategory current_memory_category() { return category_now; }

}  // namespace reprise
