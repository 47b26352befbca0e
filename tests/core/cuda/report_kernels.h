// A kernel that looks values up and reports those that are outside, for tests.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise {

/// y[i] = table[index[i]]; an index outside of the table is reported, with its place as the row. On CUDA
/// only.
extern kernels::Kernel<void(const TensorView& table, const TensorView& index, const TensorView& y)> look_up;

}  // namespace reprise
