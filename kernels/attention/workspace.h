// Memory that attention's blocks are packed into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reprise/core/thread_owned.h"

namespace reprise::kernels::attention_detail {

/// Hands out arrays that lie one behind the other in a buffer of this thread, each at a cache line. Without a buffer it
/// counts how long that must be.
class Workspace {
 public:
  Workspace() = default;
  /// In `size` bytes of this thread's buffer, which grows and is never given back.
  explicit Workspace(int64_t size) {
    struct Buffer {
      std::vector<std::byte> bytes;
    };
    std::vector<std::byte>& buffer = thread_owned<Buffer>().bytes;
    if (buffer.size() < size_t(size + line)) buffer.resize(size_t(size + line));
    end_ = (reinterpret_cast<uintptr_t>(buffer.data()) + line - 1) / line * line;
    start_ = end_;
  }

  template <class T>
  T* take(int64_t count) {
    const uintptr_t begin = end_;
    end_ += (uintptr_t(count) * sizeof(T) + line - 1) / line * line;
    return reinterpret_cast<T*>(begin);
  }
  int64_t size() const { return int64_t(end_ - start_); }

 private:
  static constexpr int64_t line = 64;
  uintptr_t start_ = 0, end_ = 0;
};

/// A Part whose constructor takes its arrays from the workspace behind its arguments: counted first, then made.
template <class Part, class... Arguments>
Part in_workspace(const Arguments&... arguments) {
  Workspace counted;
  static_cast<void>(Part(arguments..., counted));
  Workspace workspace(counted.size());
  return Part(arguments..., workspace);
}

}  // namespace reprise::kernels::attention_detail
