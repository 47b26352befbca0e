// Rows of a view as rows of another type, for CPU kernels whose tensors have several dtypes: such a kernel is that of
// f32, on rows that are widened before it and rounded after it, one at a time and in the cache.
#pragma once

#include <vector>

#include "reprise/kernels/cpu/rows.h"

namespace reprise::kernels {

/// Where a view holds T, its own memory, else a row of T beside it. An absent view has no rows.
template <class T>
class RowBuffer {
 public:
  RowBuffer(const TensorView& view, int64_t width)
      : view_(view), width_(width), plain_(!view || view.dtype == dtype_of<T>) {
    if (!plain_) buffer_.resize(size_t(width));
  }

 protected:
  T* row(int64_t row) {
    if (!view_) return nullptr;
    return plain_ ? row_at<T>(view_, row) : buffer_.data();
  }
  /// Copies between the buffer and row `row` of a view of 16-bit numbers, as `copy(half, buffer)` says.
  template <class Copy>
  [[gnu::always_inline]] void copy(int64_t row, Copy&& copy) {
    if constexpr (std::is_same_v<T, float>) {
      if (!view_ || plain_) return;
      if (view_.dtype == DType::bf16)
        copy(row_at<BFloat16>(view_, row), buffer_.data());
      else
        copy(row_at<Float16>(view_, row), buffer_.data());
    }
  }
  int64_t width() const { return width_; }

 private:
  TensorView view_;
  int64_t width_;
  bool plain_;
  std::vector<T> buffer_;
};

template <class T>
class RowReader : RowBuffer<T> {
 public:
  using RowBuffer<T>::RowBuffer;

  /// Row `row`, until the next call.
  template <int L>
  [[gnu::always_inline]] const T* at(int64_t row) {
    this->copy(row, [&](const auto* from, float* to) {
      for_each_vector<L>(this->width(), [&](int64_t j, int64_t left) {
        simd::store_row<float, L>(to + j, simd::load_row<float, L>(from + j, left), left);
      });
    });
    return this->row(row);
  }
};

template <class T>
class RowWriter : RowBuffer<T> {
 public:
  using RowBuffer<T>::RowBuffer;

  /// Where to write row `row`; `commit` must follow.
  T* at(int64_t row) { return this->row(row); }
  template <int L>
  [[gnu::always_inline]] void commit(int64_t row) {
    this->copy(row, [&](auto* to, const float* from) {
      for_each_vector<L>(this->width(), [&](int64_t j, int64_t left) {
        simd::store_row<float, L>(to + j, simd::load_row<float, L>(from + j, left), left);
      });
    });
  }
};

}  // namespace reprise::kernels
