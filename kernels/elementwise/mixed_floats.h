// The elementwise ops that mix floats (elementwise_table.h), on CUDA, for views of several dtypes. They have been checked.
#pragma once

#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::kernels {

void unary_of_mixed_floats(const Stream& stream, UnaryOp op, const TensorView& x, const TensorView& y);
void unary_backward_of_mixed_floats(const Stream& stream, UnaryOp op, const TensorView& dy,
                                    const TensorView& x, const TensorView& dx);
void binary_of_mixed_floats(const Stream& stream, BinaryOp op, const TensorView& a, const TensorView& b,
                            const TensorView& y);
void where_of_mixed_floats(const Stream& stream, const TensorView& condition, const TensorView& a,
                           const TensorView& b, const TensorView& y);

}  // namespace reprise::kernels
