// Scratch memory on the device for the kernels of one call.
//
//   Workspace workspace(stream, pieces * width * sizeof(float));
//   simt::launch({.name = "sum", ...}, kernel, workspace.as<float>(), ...);
//
// Its bytes are not initialised and start at a multiple of 256. It may go out of scope right after the
// launches: the memory is that of `stream`, current or not, so the allocator hands it to later work of that
// stream, which runs after them.
#pragma once

#include <cstddef>

#include "reprise/core/cuda/stream.h"
#include "reprise/core/memory.h"

namespace reprise::kernels::device {

class Workspace {
 public:
  /// Throws OutOfMemory.
  Workspace(const Stream& stream, size_t bytes) : allocator_(allocator(stream.device())) {
    const cuda::StreamScope scope(stream);
    block_ = allocator_.allocate(bytes, MemoryCategory::workspace);
  }
  Workspace(const Workspace&) = delete;
  ~Workspace() { allocator_.release(block_); }

  /// Null for 0 bytes.
  template <class T>
  T* as() const {
    return static_cast<T*>(block_.data);
  }

 private:
  Allocator& allocator_;
  MemoryBlock block_;
};

}  // namespace reprise::kernels::device
