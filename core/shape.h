// Shapes and strides: short lists of int64 held in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <vector>

#include "reprise/core/error.h"

namespace reprise {

/// Up to eight int64 values without an allocation: a shape, or strides counted in elements.
class Dims {
 public:
  static constexpr int max_rank = 8;  ///< dimensions that a tensor may have

  Dims() = default;  ///< none: the shape of a number
  /// @{
  /// These values in their order. Error for more than max_rank.
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  Dims(const std::vector<int64_t>& values) : Dims(std::span<const int64_t>(values)) {}
  explicit Dims(std::span<const int64_t> values) {
    for (int64_t value : values) push_back(value);
  }
  /// @}
  /// `rank` times the same value.
  static Dims filled(int rank, int64_t value) {
    Dims dims;
    for (int i = 0; i < rank; ++i) dims.push_back(value);
    return dims;
  }

  int size() const { return size_; }         ///< how many values: the rank
  bool empty() const { return size_ == 0; }  ///< of a number
  /// @{
  /// Value i, from 0 to size() - 1, which is not checked.
  int64_t& operator[](int i) { return values_[size_t(i)]; }
  int64_t operator[](int i) const { return values_[size_t(i)]; }
  /// @}
  int64_t back() const { return values_[size_t(size_ - 1)]; }    ///< the last one; there must be one
  const int64_t* begin() const { return values_.data(); }        ///< for loops over the values
  const int64_t* end() const { return values_.data() + size_; }  ///< behind the last
  /// Adds one at the end. Error where there are max_rank.
  void push_back(int64_t value) {
    check(size_ < max_rank, "shape: more than ", max_rank, " dimensions");
    values_[size_t(size_++)] = value;
  }
  friend bool operator==(const Dims& a, const Dims& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<int64_t, max_rank> values_{};
  int size_ = 0;
};

using Shape = Dims;    ///< sizes, the slowest dimension first
using Strides = Dims;  ///< elements from one place of a dimension to the next

std::ostream& operator<<(std::ostream& out, const Dims& dims);  ///< "(2, 3)"

// What follows is for operations and the engine, and may change.

/// The most elements that a shape may have. Offsets in bytes, and the product of any of its sizes, fit in
/// int64 then: code that has a shape multiplies sizes without looking again.
inline constexpr int64_t max_elements = int64_t(1) << 60;

/// The product of the sizes; 1 for a scalar. Error naming `op` on a negative size, or if the sizes other than
/// 0 multiply to more than `max_elements`: an empty tensor keeps the rule too, as in NumPy.
int64_t numel_of(const Shape& shape, const char* op = "shape");

/// `shape` with its one -1, if there is one, replaced so that it has the elements of `from`. Error naming
/// `op` if it cannot have them.
Shape resolve_shape(const Shape& from, const Shape& shape, const char* op);

/// Row-major strides, in elements.
Strides contiguous_strides(const Shape& shape);

/// NumPy broadcasting. Error naming `op` if the shapes do not fit.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

/// Maps a dimension in [-rank, rank) to [0, rank). Error naming `op` otherwise.
int normalize_dim(int64_t dim, int rank, const char* op);

/// The listed dimensions, each in [-rank, rank), as bits. Error naming `op` on one outside or listed twice.
unsigned dims_mask(const Dims& dims, int rank, const char* op);

}  // namespace reprise
