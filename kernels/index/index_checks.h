// What gather, scatter_add and one_hot check, on any device.
#pragma once

#include "reprise/kernels/strided.h"

namespace reprise::kernels {

/// Error naming `op` unless `data`, which is indexed, and `values`, which has the shape of `index`, fit.
inline void check_index_views(const char* op, const TensorView& data, const TensorView& index,
                              const TensorView& values) {
  check(index.dtype == DType::i64 || index.dtype == DType::i32, op, ": the index is ", index.dtype,
        ", not i64 or i32");
  check_same_dtype(op, data, values);
  check_same_shape(op, index, values);
  check(data.rank() == index.rank() && data.rank() >= 1, op, ": ranks differ or are 0: ", data.shape, " and ",
        index.shape);
  for (int dim = 0; dim + 1 < data.rank(); ++dim)
    check(data.shape[dim] == index.shape[dim], op, ": leading dimensions differ: ", data.shape, " and ",
          index.shape);
}

/// Error naming `op`, the first index outside [0, limit) and its place. For an index on the CPU.
void check_indices(const char* op, const TensorView& index, int64_t limit);

/// Error unless `index` is one, and y has a row of classes for each element of it.
inline void check_one_hot(const TensorView& index, const TensorView& y) {
  check(index.dtype == DType::i64 || index.dtype == DType::i32, "one_hot: the index is ", index.dtype,
        ", not i64 or i32");
  Shape shape = index.shape;
  shape.push_back(y.rank() > 0 ? y.shape.back() : 0);
  check(y.shape == shape, "one_hot: y has shape ", y.shape, ", should have ", shape);
  check(y.numel() > 0 || index.numel() == 0, "one_hot: no classes for the indices ", index.shape);
}

}  // namespace reprise::kernels
