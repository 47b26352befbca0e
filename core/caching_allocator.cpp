// The bookkeeping of memory: reuse by pool and size, accounting by category, the limit, the event log.
#include "reprise/core/caching_allocator.h"

namespace reprise {

MemoryBlock CachingAllocator::allocate(size_t bytes, MemoryCategory category) {
  if (bytes == 0) return {.category = category};
  std::lock_guard lock(mutex_);
  uintptr_t stream = source_->current_pool();
  auto redirected = entered_.find(stream);
  uintptr_t pool = redirected == entered_.end() ? stream : redirected->second;
  MemoryBlock block{nullptr, bytes, source_->rounded(bytes), category, stream, pool};
  if (!waiting_.empty()) collect_waiting(false);
  auto cached = free_.find({pool, block.reserved_bytes});
  if (cached != free_.end()) {
    block.data = cached->second;
    free_.erase(cached);
  } else {
    block.data = from_system(block);
  }
  source_->lend(block);
  account(int64_t(bytes), category);
  stats_.held += block.reserved_bytes;
  stats_.peak_held = std::max(stats_.peak_held, stats_.held);
  ++stats_.allocations;
  ++stats_.live_blocks;
  return block;
}

void CachingAllocator::release(const MemoryBlock& block) noexcept {
  if (!block.data) return;
  std::lock_guard lock(mutex_);
  account(-int64_t(block.bytes), block.category);
  stats_.held -= block.reserved_bytes;
  --stats_.live_blocks;
  auto [first, last] = other_streams_.equal_range(block.data);
  if (first == last) {
    keep(block);
    return;
  }
  // Fences cannot be asked about while a graph is captured, so what several streams of one share waits for
  // the graph's end.
  if (graph_pools_.contains(block.pool)) {
    held_.emplace(block.pool, std::pair(block.data, block.reserved_bytes));
    other_streams_.erase(first, last);
    return;
  }
  Waiting waiting{block, {}};
  try {
    for (auto i = first; i != last; ++i) waiting.fences.push_back(source_->fence(i->second));
    waiting_.push_back(std::move(waiting));
  } catch (const std::exception&) {
    // No fence, so nobody knows when the block is free: it stays reserved for good.
  }
  other_streams_.erase(first, last);
}

void CachingAllocator::move_to_category(MemoryBlock& block, MemoryCategory category) {
  std::lock_guard lock(mutex_);
  account(-int64_t(block.bytes), block.category);
  account(int64_t(block.bytes), category);
  block.category = category;
}

void CachingAllocator::record_stream(const MemoryBlock& block, const Stream& stream) {
  check(stream.device() == source_->device(), "record_stream: memory on ", source_->device(),
        " and a stream of ", stream.device());
  uintptr_t handle = reinterpret_cast<uintptr_t>(stream.handle());
  if (!block.data || handle == block.stream) return;
  std::lock_guard lock(mutex_);
  auto [first, last] = other_streams_.equal_range(block.data);
  for (auto i = first; i != last; ++i)
    if (i->second == handle) return;
  other_streams_.emplace(block.data, handle);
}

uintptr_t CachingAllocator::enter_pool(const Stream& stream) {
  uintptr_t handle = reinterpret_cast<uintptr_t>(stream.handle());
  std::lock_guard lock(mutex_);
  check(!entered_.contains(handle), "enter_pool: the stream takes memory from a graph's pool already");
  uintptr_t pool = next_graph_pool_;
  next_graph_pool_ += 2;
  entered_[handle] = pool;
  graph_pools_.insert(pool);
  return pool;
}

void CachingAllocator::leave_pool(const Stream& stream) {
  std::lock_guard lock(mutex_);
  entered_.erase(reinterpret_cast<uintptr_t>(stream.handle()));
}

void CachingAllocator::dissolve_pool(uintptr_t pool) {
  std::lock_guard lock(mutex_);
  if (graph_pools_.erase(pool) == 0) return;
  auto first = free_.lower_bound({pool, 0}), last = free_.lower_bound({pool + 1, 0});
  for (auto i = first; i != last; ++i) give_back(i->second, i->first.second);
  free_.erase(first, last);
  auto [first_held, last_held] = held_.equal_range(pool);
  for (auto i = first_held; i != last_held; ++i) give_back(i->second.first, i->second.second);
  held_.erase(first_held, last_held);
}

MemoryStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_held = stats_.held;
  stats_.peak_reserved = stats_.reserved;
  stats_.peak_by_category = stats_.by_category;
}

void CachingAllocator::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  if (limit_ && stats_.reserved > limit_) drop_cache();
}

size_t CachingAllocator::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

void CachingAllocator::empty_cache() {
  std::lock_guard lock(mutex_);
  drop_cache();
}

void CachingAllocator::start_recording() {
  std::lock_guard lock(mutex_);
  recording_ = true;
  events_.clear();
  started_ = std::chrono::steady_clock::now();
}

std::vector<MemoryEvent> CachingAllocator::stop_recording() {
  std::lock_guard lock(mutex_);
  recording_ = false;
  return std::move(events_);
}

void* CachingAllocator::from_system(const MemoryBlock& block) {
  size_t bytes = block.reserved_bytes;
  if (limit_ && stats_.reserved + bytes > limit_) drop_cache();
  if (limit_ && stats_.reserved + bytes > limit_) refuse(block, "the limit");
  void* data = source_->obtain(bytes);
  if (!data) {
    drop_cache();
    data = source_->obtain(bytes);
  }
  if (!data) refuse(block, "the system");
  stats_.reserved += bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  ++stats_.system_allocations;
  return data;
}

void CachingAllocator::refuse(const MemoryBlock& block, const char* who) const {
  std::ostringstream text;
  text << "out of memory on " << source_->device() << ": " << block.bytes << " bytes of "
       << name_of(block.category) << " refused by " << who;
  if (limit_) text << " of " << limit_ << " bytes";
  text << "; held: " << stats_.allocated << " bytes";
  for (int i = 0; i < memory_category_count; ++i) {
    size_t held = stats_.by_category[size_t(i)];
    if (held) text << ", " << name_of(MemoryCategory(i)) << ' ' << held;
  }
  throw OutOfMemory(text.str());
}

void CachingAllocator::account(int64_t bytes, MemoryCategory category) {
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

// A graph's pool may be gone before its last block is: then nobody else may have the block.
void CachingAllocator::keep(const MemoryBlock& block) {
  source_->take_back(block);
  if (is_graph_pool(block.pool) && !graph_pools_.contains(block.pool))
    give_back(block.data, block.reserved_bytes);
  else
    free_.emplace(Key{block.pool, block.reserved_bytes}, block.data);
}

void CachingAllocator::give_back(void* data, size_t bytes) {
  source_->give_back(data, bytes);
  stats_.reserved -= bytes;
}

void CachingAllocator::collect_waiting(bool wait) {
  std::erase_if(waiting_, [&](Waiting& waiting) {
    std::erase_if(waiting.fences, [&](void* fence) {
      if (!wait) return source_->has_passed(fence);
      source_->wait(fence);
      return true;
    });
    if (!waiting.fences.empty()) return false;
    keep(waiting.block);
    return true;
  });
}

// What belongs to a graph stays: it runs on that memory again.
void CachingAllocator::drop_cache() {
  collect_waiting(true);
  std::erase_if(free_, [&](const auto& entry) {
    if (is_graph_pool(entry.first.first)) return false;
    give_back(entry.second, entry.first.second);
    return true;
  });
}

}  // namespace reprise
