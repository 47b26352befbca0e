// LibraryMemory: memory of a CUDA device that a library hands out. Some libraries know memory of their own by more than its
// address, and do more with it: NCCL's can be read by the GPUs of other ranks.
#pragma once

#include <cstddef>
#include <utility>

namespace reprise::cuda {

/// A library's two functions. It lives as long as the process.
struct LibraryMemory {
  void* (*obtain)(int device, size_t bytes);           ///< null if there is not enough
  void (*give_back)(int device, void* data) noexcept;  ///< what uses it is on a stream, at most
};

/// While it lives, tensors of CUDA devices that are made on this thread lie in memory of a library: each in a block that the
/// library handed out for it or, once that was released, for another tensor.
class LibraryMemoryScope {
 public:
  explicit LibraryMemoryScope(const LibraryMemory& memory) : before_(std::exchange(current_, &memory)) {}
  ~LibraryMemoryScope() { current_ = before_; }
  LibraryMemoryScope(const LibraryMemoryScope&) = delete;

  static const LibraryMemory* current() { return current_; }  ///< null outside

 private:
  inline static thread_local const LibraryMemory* current_ = nullptr;
  const LibraryMemory* before_;
};

}  // namespace reprise::cuda
