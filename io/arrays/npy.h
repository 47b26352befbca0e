// NumPy's arrays in files (numpy.lib.format, versions 1.0 to 3.0).
#pragma once

#include <string>

#include "reprise/core/tensor.h"

namespace reprise::io {

/// A new tensor on the CPU of what numpy.save wrote: float64, float32, float16, int64, int32, uint8 or bool, little-endian, in
/// C's or Fortran's order. Error with the path and the fact where the file breaks the format, has more or fewer bytes than its
/// shape says, or elements of another type; objects, which are pickles, are among those.
Tensor read_npy(const std::string& path);

/// Writes `x` (on any device, with any strides) for numpy.load, in version 1.0 and C's order, atomically and durably. Error for
/// bf16, which NumPy has not: x.to(DType::f32) keeps its values.
void write_npy(const std::string& path, const Tensor& x);

}  // namespace reprise::io
