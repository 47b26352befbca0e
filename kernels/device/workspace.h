// Scratch memory on the device for the kernels of one call.
//
//   Workspace workspace(stream, pieces * width * sizeof(float));
//   simt::launch({.name = "sum", ...}, kernel, workspace.as<float>(), ...);
//
// Its bytes are not initialised and start at a multiple of 256. It may go out of scope right after the
// launches: the allocator hands the memory to later work of the same stream, which runs after them.
#pragma once

#include <cstddef>

#include "reprise/core/memory.h"
#include "reprise/core/stream.h"

namespace reprise::kernels::device {

class Workspace {
 public:
  /// Throws OutOfMemory.
  Workspace(const Stream& stream, size_t bytes)
      : stream_(stream), block_(allocator(stream.device()).allocate(bytes, MemoryCategory::workspace)) {}
  Workspace(const Workspace&) = delete;
  ~Workspace() {
    Allocator& from = allocator(stream_.device());
    if (stream_ != current_stream(stream_.device())) from.record_stream(block_, stream_);
    from.release(block_);
  }

  /// Null for 0 bytes.
  template <class T>
  T* as() const {
    return static_cast<T*>(block_.data);
  }

 private:
  Stream stream_;
  MemoryBlock block_;
};

}  // namespace reprise::kernels::device
