// Several tensors as one.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::distributed {

/// The elements of `parts`, one after another, (n); zeros in the place of an undefined part, which would be of the shape of
/// forms[i]. All are on the CPU and of `dtype`: Error otherwise. Of one
/// part this is itself, reshaped, where it is contiguous and nothing else holds its memory.
Tensor flatten(const TensorList& parts, const TensorList& forms, DType dtype);

}  // namespace reprise::distributed
