// PinnedBuffer: host memory that a device copies from and to in the background.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace reprise::cuda {

/// Not initialised. Plain memory where there is no CUDA device. Copies on streams must have ended before it goes. What was
/// pinned stays with the process for buffers to come, so that none waits for a device as it goes.
class PinnedBuffer {
 public:
  explicit PinnedBuffer(size_t bytes);  ///< of 0 bytes it has no memory
  ~PinnedBuffer();
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  void* data() const { return data_; }     ///< null for 0 bytes
  size_t bytes() const { return bytes_; }  ///< as asked for
  /// The memory as numbers of T: as many as fit.
  template <class T>
  std::span<T> as() const {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace reprise::cuda
