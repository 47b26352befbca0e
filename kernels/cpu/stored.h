// Numbers as they lie in memory, of T, or of f32 where T is a half type: for kernels whose tensors have either, each its
// own, without an instance for each mix of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/core/view.h"
#include "reprise/kernels/cpu/simd_rows.h"

namespace reprise::kernels {

/// Where the numbers are; null if there are none. Which type they have is asked for each vector, and always answered
/// alike.
template <class T>
class Stored {
 public:
  using C = Accumulator<T>;
  static constexpr bool may_be_wide = sizeof(T) == 2;

  Stored() = default;
  Stored(const T* data) : data_(const_cast<T*>(data)) {}
  /// Of a view; none if it is absent.
  explicit Stored(const TensorView& x)
      : data_(x ? x.data : nullptr), wide_(may_be_wide && x.dtype == DType::f32) {}

  explicit operator bool() const { return data_; }
  int64_t size() const { return wide() ? int64_t(sizeof(C)) : int64_t(sizeof(T)); }  ///< bytes of one
  Stored operator+(int64_t offset) const {
    Stored moved = *this;
    moved.data_ = static_cast<std::byte*>(data_) + offset * size();
    return moved;
  }
  void* data() const { return data_; }

  C operator[](int64_t i) const { return wide() ? static_cast<const C*>(data_)[i] : C(plain()[i]); }
  /// The vector from number i on; `left` are there.
  template <int L>
  [[gnu::always_inline]] simd::Vector<C, L> load(int64_t i, int64_t left) const {
    if (wide()) return simd::load_row<C, L>(static_cast<const C*>(data_) + i, left);
    return simd::load_row<C, L>(plain() + i, left);
  }
  template <int L>
  [[gnu::always_inline]] void store(int64_t i, simd::Vector<C, L> value, int64_t left,
                                    bool past_caches = false) const {
    if (wide()) return simd::store_row<C, L>(static_cast<C*>(data_) + i, value, left, past_caches);
    simd::store_row<C, L>(plain() + i, value, left, past_caches);
  }

 private:
  bool wide() const { return may_be_wide && wide_; }
  T* plain() const { return static_cast<T*>(data_); }

  void* data_ = nullptr;
  bool wide_ = false;
};

}  // namespace reprise::kernels
