// PinnedBuffer over the runtime, or over plain memory.
#include "reprise/core/cuda/pinned.h"

#include <new>

#include "reprise/core/cuda/runtime.h"

namespace reprise::cuda {
namespace {

constexpr std::align_val_t alignment{256};

bool is_plain() { return device_count() == 0; }

}  // namespace

PinnedBuffer::PinnedBuffer(size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  data_ = is_plain() ? ::operator new(bytes, alignment) : allocate_pinned(bytes);
}

PinnedBuffer::~PinnedBuffer() {
  if (!data_) return;
  if (is_plain())
    ::operator delete(data_, alignment);
  else
    release_pinned(data_);
}

}  // namespace reprise::cuda
