// Several tensors as one.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise::distributed {

/// The elements of `parts`, one after another, (n); numel[i] zeros in the place of an undefined one, which has so many
/// otherwise. All are on `device` and of `dtype`: Error otherwise. Of one part this is itself, reshaped, where it is
/// contiguous and nothing else holds its memory. Where `into` is defined, (n), they are put there.
Tensor flatten(const TensorList& parts, const std::vector<int64_t>& numel, DType dtype, Device device = {},
               const Tensor& into = {});

}  // namespace reprise::distributed
