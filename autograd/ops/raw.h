// Small helpers for the forward and backward bodies of operations: plain tensors, nothing recorded.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// A view with another shape, of a tensor whose strides allow it.
inline Tensor raw_reshape(const Tensor& x, const Shape& shape) {
  TensorView view;
  invariant(try_reshape(x, shape, view), "raw_reshape: ", x.shape(), " to ", shape);
  return x.alias(view);
}

/// An optional kernel argument.
inline TensorView optional_view(const Tensor& x) { return x.defined() ? x.view() : TensorView(); }

/// x, or a copy, with stride 1 in the last dimension, as row kernels need.
inline Tensor unit_stride(const Tensor& x) {
  bool already = x.size(-1) <= 1 || x.strides()[x.rank() - 1] == 1;
  return already ? x : x.clone();  // not contiguous(): an empty tensor is, whatever its strides
}

/// Error unless `other` is undefined or has the dtype of x.
inline void check_dtype(const Tensor& x, const Tensor& other, const char* op) {
  check(!other.defined() || other.dtype() == x.dtype(), op, ": dtypes differ: ", x.dtype(), " and ",
        other.defined() ? other.dtype() : x.dtype());
}

/// Error unless `other` is undefined or lies where x does.
inline void check_device(const char* op, const Tensor& x, const Tensor& other) {
  check(!other.defined() || other.device() == x.device(), op, ": tensors on ", x.device(), " and ",
        other.defined() ? other.device() : x.device());
}

inline void check_floating(const char* op, const Tensor& x) {
  check(is_floating(x.dtype()), op, ": needs a floating dtype, got ", x.dtype());
}

/// x.shape() without the last dimension.
inline Shape rows_shape(const Tensor& x) {
  Shape shape;
  for (int d = 0; d < x.rank() - 1; ++d) shape.push_back(x.shape()[d]);
  return shape;
}

/// x.shape() with the last size replaced.
inline Shape with_width(const Tensor& x, int64_t width) {
  Shape shape = x.shape();
  shape[x.rank() - 1] = width;
  return shape;
}

/// x.shape() without the dimensions of the mask `reduced`.
inline Shape without_reduced(const Tensor& x, unsigned reduced) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d)
    if (!(reduced >> d & 1)) shape.push_back(x.shape()[d]);
  return shape;
}

/// The dtype of row statistics: f64 for f64, else f32.
inline DType statistics_dtype(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

inline Tensor raw_empty_like(const Tensor& x) { return Tensor::empty(x.shape(), x.dtype(), x.device()); }

}  // namespace reprise::autograd
