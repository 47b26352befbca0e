// PinnedBuffer over the runtime, or over plain memory.
//
// Note [Pinned memory is kept]
// cudaFreeHost waits for all work of all devices of the process. Where ranks are threads with a device each, one rank would
// wait there for another's collective, which waits for the first one's part in it: neither goes on. So memory is given back
// to the system only where it has no more to give.
#include "reprise/core/cuda/pinned.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "reprise/core/cuda/runtime.h"
#include "reprise/core/error.h"
#include "reprise/core/memory_source.h"

namespace reprise::cuda {
namespace {

constexpr std::align_val_t pinned_alignment{256};

bool is_plain() { return device_count() == 0; }

// What was pinned and has no owner now.
class IdleMemory {
 public:
  void* take(size_t bytes) {
    std::lock_guard lock(mutex_);
    const auto fit = std::ranges::find(blocks_, bytes, &Block::bytes);
    if (fit == blocks_.end()) return pin(bytes);
    void* data = fit->data;
    *fit = blocks_.back();
    blocks_.pop_back();
    return data;
  }
  void give_back(void* data, size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    blocks_.push_back({data, bytes});  // room for all that is pinned
  }

 private:
  struct Block {
    void* data;
    size_t bytes;
  };

  void* pin(size_t bytes) {
    blocks_.reserve(pinned_ + 1);
    void* data = nullptr;
    try {
      data = allocate_pinned(bytes);
    } catch (const Error&) {
      if (blocks_.empty()) throw;
      for (const Block& block : blocks_) release_pinned(block.data);
      pinned_ -= blocks_.size();
      blocks_.clear();
      data = allocate_pinned(bytes);
    }
    ++pinned_;
    return data;
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;
  size_t pinned_ = 0;  // blocks, idle or not
};

IdleMemory& idle_memory() {
  static auto* one = new IdleMemory;  // never destroyed: statics may own buffers
  return *one;
}

// Few sizes, so that buffers fit others' memory.
size_t reserved(size_t bytes) { return size_class(bytes, 4096); }

}  // namespace

PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = is_plain() ? ::operator new(bytes, pinned_alignment) : idle_memory().take(reserved(bytes));
}

PinnedBuffer::~PinnedBuffer() {
  if (!data_) return;
  if (is_plain())
    ::operator delete(data_, pinned_alignment);
  else
    idle_memory().give_back(data_, reserved(bytes_));
}

}  // namespace reprise::cuda
