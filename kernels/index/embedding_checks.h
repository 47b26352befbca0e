// What embedding and its backward check, on any device.
#pragma once

#include "reprise/core/view.h"

namespace reprise::kernels {

/// Error naming `op` unless weight is (V, C), indices are i64 and y is (indices..., C).
inline void check_embedding(const char* op, const TensorView& weight, const TensorView& indices,
                            const TensorView& y, const char* y_name) {
  check(weight.rank() == 2, op, ": the table needs shape (V, C), has ", weight.shape);
  check(indices.dtype == DType::i64, op, ": indices are ", indices.dtype, ", should be i64");
  Shape shape = indices.shape;
  shape.push_back(weight.size(1));
  check(y.shape == shape, op, ": ", y_name, " has shape ", y.shape, ", should have ", shape);
}

/// Error unless rows of `weight` can be copied to y: one dtype, or floating ones that a copy may round between.
inline void check_row_dtypes(const char* op, const TensorView& weight, const TensorView& y) {
  auto converts = [](DType dtype) { return is_floating(dtype) && dtype != DType::f64; };
  check(weight.dtype == y.dtype || (converts(weight.dtype) && converts(y.dtype)), op, ": the table is ",
        weight.dtype, ", y ", y.dtype);
}

/// Error unless dweight has the dtype of dy, or the one that dy is added up in.
inline void check_table_gradient(const char* op, const TensorView& dy, const TensorView& dweight) {
  dispatch_floating(dy.dtype, op, [&]<class T>() {
    constexpr DType wide = dtype_of<Accumulator<T>>;
    check(dweight.dtype == dy.dtype || dweight.dtype == wide, op, ": dweight is ", dweight.dtype,
          ", should be ", dy.dtype, " or ", wide);
  });
}

}  // namespace reprise::kernels
