// TensorView: what a kernel sees. A pointer, a shape, strides and a dtype; it owns nothing and is never
// stored past the call.
#pragma once

#include <cstdint>

#include "reprise/core/device.h"
#include "reprise/core/dtype.h"
#include "reprise/core/shape.h"

namespace reprise {

/// Elements in memory: where the first one is, and how the others lie. It owns nothing: not to be kept past a call.
struct TensorView {
  void* data =
      nullptr;      ///< the first element; null for an absent optional argument (and for an empty tensor)
  Shape shape;      ///< its sizes
  Strides strides;  ///< in elements; 0 where broadcast
  DType dtype = DType::f32;  ///< of its elements
  Device device;             ///< where they are

  int rank() const { return shape.size(); }  ///< how many dimensions
  /// @{
  /// The size or the stride of dimension `dim`, of which a negative one counts from the end. It is not checked.
  int64_t size(int dim) const { return shape[dim < 0 ? dim + rank() : dim]; }
  int64_t stride(int dim) const { return strides[dim < 0 ? dim + rank() : dim]; }
  /// @}
  int64_t numel() const { return numel_of(shape); }           ///< how many elements
  bool is_contiguous() const;                                 ///< row-major; an empty view always is
  explicit operator bool() const { return data != nullptr; }  ///< whether there is data

  /// The data as T. Error if the dtype is another.
  template <class T>
  T* as() const {
    check(dtype == dtype_of<T>, "view: holds ", name_of(dtype), ", read as ", name_of(dtype_of<T>));
    return static_cast<T*>(data);
  }
};

/// Views of the same memory.
TensorView transpose(const TensorView& x, int64_t dim0, int64_t dim1);
/// Elements begin, begin + step, ... before end; negative bounds count from the end. Error where a bound lies
/// outside the dimension: nothing is clamped.
TensorView slice(const TensorView& x, int64_t dim, int64_t begin, int64_t end, int64_t step = 1);
TensorView select(const TensorView& x, int64_t dim, int64_t index);  ///< drops the dimension
/// Broadcast: stride 0. Error naming `op`.
TensorView expand(const TensorView& x, const Shape& shape, const char* op = "expand");
TensorView permute(const TensorView& x, const Dims& order);  ///< dimension i is dimension order[i] of x
/// A view with another shape. False if the strides do not allow it without a copy.
bool try_reshape(const TensorView& x, const Shape& shape, TensorView& out);

}  // namespace reprise
