// What gather and scatter_add check, on any device.
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

}  // namespace reprise::kernels
