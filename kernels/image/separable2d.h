// A linear map of planes of pixels that treats rows and columns apart, each number a sum over few pixels: resizing,
// averages of windows, mirrored borders.
//
//   y[n, c, i, j] = sum over q of columns[j, q] (sum over p of rows[i, p] x[n, c, p, q])
//
// Its gradient is the same map by the transposed matrices: a gather too, so no sum depends on who comes first.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// A sparse matrix by rows: row i has `weights[k]` in column `sources[k]`, for k in [starts[i], starts[i + 1]).
struct SparseRows {
  TensorView starts;   ///< i32 (rows + 1), from 0 on, ascending
  TensorView sources;  ///< i32 (entries), in [0, columns)
  TensorView weights;  ///< (entries), f64 where x is, else f32
};

/// x (N, C, H, W), y (N, C, I, J), each of f32 or 16 bits, or both of f64; rows is (I, H), columns is (J, W). All contiguous. Sums are
/// kept in f32 (f64 for f64), in the order of the entries.
extern Kernel<void(const TensorView& x, const SparseRows& rows, const SparseRows& columns,
                   const TensorView& y)>
    separable2d;

/// What any device checks before it launches. The entries are trusted.
void check_separable2d(const TensorView& x, const SparseRows& rows, const SparseRows& columns,
                       const TensorView& y);

}  // namespace reprise::kernels
