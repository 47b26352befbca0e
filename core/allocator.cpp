// The bookkeeping of memory: reuse by pool and size, accounting by category, the limit, the event log.
#include "reprise/core/memory.h"

#include <algorithm>
#include <new>

#include "reprise/core/bytes.h"
#include "reprise/core/memory_source.h"

namespace reprise {
namespace {

// Of one request: no system has more, and sums of sizes stay below 2^64.
constexpr size_t most_bytes = size_t(1) << 56;

const std::vector<uintptr_t> no_streams;

}  // namespace

Allocator::Allocator(std::unique_ptr<MemorySource> source) : source_(std::move(source)) {}
Allocator::~Allocator() = default;

// Note [Releasing takes no memory]
// Tensors go in destructors, also while an exception for want of memory is on its way. So whatever a release
// will need is set aside while the block is taken or shared, where failing is an exception: room in the list
// of free blocks of its size, in the event log, and for its fences. Only a block of one stream that a graph holds needs an
// entry as it is released; without room for one it is leaked.

MemoryBlock Allocator::allocate(size_t bytes, MemoryCategory category) {
  if (bytes == 0) return {.category = category};
  std::lock_guard lock(mutex_);
  uintptr_t stream = source_->current_pool();
  auto redirected = entered_.find(stream);
  uintptr_t pool = redirected == entered_.end() ? source_->pool_on(stream) : redirected->second;
  MemoryBlock block{nullptr, bytes, bytes, category, stream, pool};
  if (bytes > most_bytes) refuse(block, "the system");
  block.held_bytes = source_->rounded(bytes);
  reserve_events(2);
  if (!waiting_.empty()) collect_waiting(false);
  Alike& alike = blocks_[{pool, block.held_bytes}];
  if (alike.free.empty()) {
    block.data = from_system(block, alike);
  } else {
    block.data = alike.free.back();
    alike.free.pop_back();
  }
  source_->lend(block);
  account(int64_t(bytes), category);
  stats_.held += block.held_bytes;
  stats_.peak_held = std::max(stats_.peak_held, stats_.held);
  ++stats_.allocations;
  ++stats_.live_blocks;
  return block;
}

void Allocator::release(const MemoryBlock& block) noexcept {
  if (!block.data) return;
  std::lock_guard lock(mutex_);
  account(-int64_t(block.bytes), block.category);
  stats_.held -= block.held_bytes;
  --stats_.live_blocks;
  auto shared = shared_.extract(block.data);
  const uintptr_t graph = graph_that_uses(block, shared ? shared.mapped().streams : no_streams);
  // A graph's own block, on no other stream, is free for what the graph does next.
  if (!shared && (graph == 0 || graph == block.pool)) {
    keep(block);
    return;
  }
  try {
    if (!shared) shared_[block.data] = {}, shared = shared_.extract(block.data);
  } catch (const std::bad_alloc&) {
    return;  // leak it, rather than let what the graph reads change
  }
  shared.mapped().block = block;
  shared.mapped().graph = graph;
  if (graph != 0)
    held_.insert(std::move(shared));
  else
    keep_after_fences(std::move(shared));
}

// The pool of a graph that may use the block in each of its launches, where it is released before the graph goes; 0 if there
// is none: that which is captured on one of its streams, else that whose pool it is of. A stream that is captured has no
// fences, and a launch comes after any.
uintptr_t Allocator::graph_that_uses(const MemoryBlock& block, const std::vector<uintptr_t>& streams) const {
  for (const auto& [stream, pool] : entered_)
    if (stream == block.stream || std::ranges::find(streams, stream) != streams.end()) return pool;
  return graph_pools_.contains(block.pool) ? block.pool : 0;
}

void Allocator::keep_after_fences(SharedBlocks::node_type shared) noexcept {
  try {
    for (uintptr_t stream : shared.mapped().streams) shared.mapped().fences.push_back(source_->fence(stream));
    waiting_.insert(std::move(shared));
  } catch (const std::exception&) {
    // Without a fence we cannot tell when the block is free; leak it.
  }
}

void Allocator::move_to_category(MemoryBlock& block, MemoryCategory category) {
  std::lock_guard lock(mutex_);
  reserve_events(2);
  account(-int64_t(block.bytes), block.category);
  account(int64_t(block.bytes), category);
  block.category = category;
}

void Allocator::record_stream(const MemoryBlock& block, const Stream& stream) {
  check(stream.device() == source_->device(), "record_stream: memory on ", source_->device(),
        " and a stream of ", stream.device());
  uintptr_t handle = reinterpret_cast<uintptr_t>(stream.handle());
  if (!block.data || handle == block.stream) return;
  std::lock_guard lock(mutex_);
  Shared& shared = shared_[block.data];
  if (std::ranges::find(shared.streams, handle) != shared.streams.end()) return;
  shared.fences.reserve(shared.streams.size() + 1);
  shared.streams.push_back(handle);
}

uintptr_t Allocator::enter_pool(const Stream& stream) {
  uintptr_t handle = reinterpret_cast<uintptr_t>(stream.handle());
  std::lock_guard lock(mutex_);
  check(!entered_.contains(handle), "enter_pool: the stream takes memory from a graph's pool already");
  uintptr_t pool = next_graph_pool_;
  next_graph_pool_ += 2;
  entered_[handle] = pool;
  graph_pools_.insert(pool);
  return pool;
}

void Allocator::leave_pool(const Stream& stream) {
  std::lock_guard lock(mutex_);
  entered_.erase(reinterpret_cast<uintptr_t>(stream.handle()));
}

void Allocator::dissolve_pool(uintptr_t pool) {
  std::lock_guard lock(mutex_);
  if (graph_pools_.erase(pool) == 0) return;
  for (auto at = held_.begin(); at != held_.end();) {
    if (at->second.graph != pool) {
      ++at;
      continue;
    }
    auto shared = held_.extract(at++);
    if (shared.mapped().block.pool == pool || shared.mapped().streams.empty())
      keep(shared.mapped().block);
    else
      keep_after_fences(std::move(shared));
  }
  auto first = blocks_.lower_bound({pool, 0}), last = blocks_.lower_bound({pool + 1, 0});
  while (first != last) {
    for (void* data : first->second.free) give_back(first->first, first->second, data);
    first->second.free.clear();
    first = first->second.count ? std::next(first) : blocks_.erase(first);
  }
}

MemoryStats Allocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void Allocator::reset_peaks() {
  std::lock_guard lock(mutex_);
  stats_.peak_allocated = stats_.allocated;
  stats_.peak_held = stats_.held;
  stats_.peak_reserved = stats_.reserved;
  stats_.peak_by_category = stats_.by_category;
}

void Allocator::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
  if (limit_ && stats_.reserved > limit_) drop_cache();
}

size_t Allocator::limit() const {
  std::lock_guard lock(mutex_);
  return limit_;
}

size_t Allocator::block_size(size_t bytes) const { return bytes == 0 ? 0 : source_->rounded(bytes); }

void Allocator::empty_cache() {
  std::lock_guard lock(mutex_);
  drop_cache();
}

void Allocator::start_recording() {
  std::lock_guard lock(mutex_);
  events_.clear();
  recording_ = true;
  reserve_events(0);
  started_ = std::chrono::steady_clock::now();
}

std::vector<MemoryEvent> Allocator::stop_recording() {
  std::lock_guard lock(mutex_);
  recording_ = false;
  return std::move(events_);
}

void* Allocator::from_system(const MemoryBlock& block, Alike& alike) {
  size_t bytes = block.held_bytes;
  if (alike.free.capacity() <= alike.count) alike.free.reserve(2 * alike.count + 1);
  if (limit_ && stats_.reserved + bytes > limit_) drop_cache();
  if (limit_ && stats_.reserved + bytes > limit_) refuse(block, "the limit");
  void* data = source_->obtain(bytes);
  if (!data) {
    drop_cache();
    data = source_->obtain(bytes);
  }
  if (!data) refuse(block, "the system");
  ++alike.count;
  stats_.reserved += bytes;
  stats_.peak_reserved = std::max(stats_.peak_reserved, stats_.reserved);
  ++stats_.system_allocations;
  return data;
}

void Allocator::refuse(const MemoryBlock& block, const char* who) const {
  TextStream text;
  text << "out of memory on " << source_->device() << ": " << format_bytes(block.bytes) << " of "
       << name_of(block.category) << " refused by " << who;
  if (limit_) text << " of " << format_bytes(limit_);
  text << "; held: " << format_bytes(stats_.held);
  for (int i = 0; i < memory_category_count; ++i) {
    size_t held = stats_.by_category[size_t(i)];
    if (held) text << ", " << name_of(MemoryCategory(i)) << ' ' << format_bytes(held);
  }
  throw OutOfMemory(text.str());
}

void Allocator::account(int64_t bytes, MemoryCategory category) {
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

// A graph's pool may be gone before its last block is: then nothing else may have the block.
void Allocator::keep(const MemoryBlock& block) {
  source_->take_back(block);
  auto alike = blocks_.find({block.pool, block.held_bytes});
  if (!is_graph_pool(block.pool) || graph_pools_.contains(block.pool)) {
    alike->second.free.push_back(block.data);
    return;
  }
  give_back(alike->first, alike->second, block.data);
  if (alike->second.count == 0) blocks_.erase(alike);
}

void Allocator::give_back(const Key& key, Alike& alike, void* data) {
  source_->give_back(data, key.second);
  stats_.reserved -= key.second;
  --alike.count;
}

// While events are recorded there is room for `more` and for the release of every live block.
void Allocator::reserve_events(size_t more) {
  if (!recording_) return;
  size_t needed = events_.size() + size_t(stats_.live_blocks) + more;
  if (events_.capacity() < needed) events_.reserve(2 * needed);
}

void Allocator::collect_waiting(bool wait) {
  for (auto i = waiting_.begin(); i != waiting_.end();) {
    std::erase_if(i->second.fences, [&](void* fence) {
      if (!wait) return source_->has_passed(fence);
      source_->wait(fence);
      return true;
    });
    if (i->second.fences.empty()) {
      keep(i->second.block);
      i = waiting_.erase(i);
    } else {
      ++i;
    }
  }
}

// What belongs to a graph stays: it runs on that memory again.
void Allocator::drop_cache() {
  collect_waiting(true);
  for (auto& [key, alike] : blocks_) {
    if (is_graph_pool(key.first)) continue;
    for (void* data : alike.free) give_back(key, alike, data);
    alike.free.clear();
  }
}

}  // namespace reprise
