// Idle buffers.
#include "reprise/core/cuda/pinned_pool.h"

#include <algorithm>

#include "reprise/core/memory_source.h"

namespace reprise::cuda {
namespace {
constexpr size_t step = 4096;
}  // namespace

PinnedBuffer PinnedPool::take(size_t bytes) {
  std::lock_guard lock(mutex_);
  auto best = idle_.end();
  for (auto buffer = idle_.begin(); buffer != idle_.end(); ++buffer)
    if (buffer->bytes() >= bytes && buffer->bytes() < 2 * std::max(bytes, step) &&
        (best == idle_.end() || buffer->bytes() < best->bytes()))
      best = buffer;
  if (best != idle_.end()) {
    std::swap(*best, idle_.back());
    PinnedBuffer buffer = std::move(idle_.back());
    idle_.pop_back();
    return buffer;
  }
  idle_.reserve(count_ + 1);
  PinnedBuffer buffer(size_class(bytes, step));
  ++count_;
  bytes_ += buffer.bytes();
  return buffer;
}

void PinnedPool::give_back(PinnedBuffer buffer) noexcept {
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(buffer));
}

size_t PinnedPool::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace reprise::cuda
