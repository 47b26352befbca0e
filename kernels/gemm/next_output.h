// The lines that an epilogue will read and write soon, which a unit asks for while it multiplies.
#pragma once

#include <algorithm>
#include <cstdint>

namespace reprise::kernels::gemm_detail {

class NextOutput {
 public:
  /// Of rows of `columns` elements of `size` bytes that begin at `first` and are `stride` elements apart; nothing if it
  /// is null.
  void add(const void* first, int64_t size, int64_t columns, int64_t stride) {
    if (first) matrices_[count_++] = {static_cast<const char*>(first), columns * size, stride * size};
  }

  [[gnu::always_inline]] void prefetch(int64_t row, int64_t rows) const {
    for (int m = 0; m < count_; ++m) {
      const auto& [first, bytes, stride] = matrices_[m];
      for (int64_t i = row; i < row + rows; ++i)
        for (int64_t at = 0; at < bytes; at += 64) __builtin_prefetch(first + i * stride + at, 1);
    }
  }

 private:
  struct Matrix {
    const char* first;
    int64_t bytes, stride;
  };
  Matrix matrices_[3];
  int count_ = 0;
};

}  // namespace reprise::kernels::gemm_detail
