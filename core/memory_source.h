// MemorySource: where an allocator's memory comes from, and what a device adds to the bookkeeping that all
// have in common (core/memory.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/core/memory.h"

namespace reprise {

class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual Device device() const = 0;

  /// The bytes to reserve for a request. Blocks of one size are interchangeable, so few sizes mean much
  /// reuse.
  virtual size_t rounded(size_t bytes) const = 0;
  virtual void* obtain(size_t bytes) = 0;  ///< from the system; null if there is not enough
  virtual void give_back(void* data, size_t bytes) noexcept = 0;

  /// The pool that a request of this thread belongs to: its current stream, 0 where there are no streams.
  virtual uintptr_t current_pool() const { return 0; }
  /// Where that stream's requests of this thread are served from: a pool of another kind of memory, if the source has one.
  virtual uintptr_t pool_on(uintptr_t stream) const { return stream; }

  /// Told when a block is handed out, and when it comes back.
  virtual void lend(const MemoryBlock&) {}
  virtual void take_back(const MemoryBlock&) noexcept {}

  /// A point that a stream will pass after all that is on it now. `has_passed` and `wait` end a fence.
  virtual void* fence(uintptr_t) { return nullptr; }
  virtual bool has_passed(void*) { return true; }
  virtual void wait(void*) {}
};

/// `bytes` rounded up to 1/16 of its size, at least to `step`: less than 7 % are lost.
inline size_t size_class(size_t bytes, size_t step) {
  while (step * 16 < bytes) step *= 2;
  return (bytes + step - 1) / step * step;
}

/// The sources there are. Those of CUDA devices are one per device.
std::unique_ptr<MemorySource> make_cpu_source();
std::unique_ptr<MemorySource> make_cuda_source(Device device);

}  // namespace reprise
