// Separable maps of images as an operation: what interpolation, means of windows and mirrored borders are made of.
#pragma once

#include <optional>

#include "reprise/core/tensor.h"
#include "reprise/kernels/image/axis_map.h"

namespace reprise::autograd {

/// x (N, C, H, W) -> (N, C, rows.outputs(), columns.outputs()); rows and columns map from H and W. The
/// result is of dtype `out`, which is that of x unless it is given: f32 of 16 bits, and the other way round, rounded once.
Tensor separable2d(const Tensor& x, const kernels::AxisMap& rows, const kernels::AxisMap& columns,
                   std::optional<DType> out = {});

}  // namespace reprise::autograd
