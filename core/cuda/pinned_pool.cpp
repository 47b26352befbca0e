// Idle buffers by size.
#include "reprise/core/cuda/pinned_pool.h"

#include "reprise/core/memory_source.h"

namespace reprise::cuda {
namespace {
constexpr size_t step = 4096;
}  // namespace

PinnedBuffer PinnedPool::take(size_t bytes) {
  std::lock_guard lock(mutex_);
  auto fit = idle_.lower_bound(bytes);
  if (fit != idle_.end() && fit->first < 2 * std::max(bytes, step)) {
    PinnedBuffer buffer = std::move(fit->second);
    idle_.erase(fit);
    return buffer;
  }
  PinnedBuffer buffer(size_class(bytes, step));
  bytes_ += buffer.bytes();
  return buffer;
}

void PinnedPool::give_back(PinnedBuffer buffer) noexcept {
  std::lock_guard lock(mutex_);
  size_t bytes = buffer.bytes();
  try {
    idle_.emplace(bytes, std::move(buffer));
  } catch (const std::bad_alloc&) { bytes_ -= bytes; }  // not kept: the runtime waits for copies as it frees
}

size_t PinnedPool::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace reprise::cuda
