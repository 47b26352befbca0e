// What averages check, on any device.
#pragma once

#include "reprise/kernels/optimizer/lerp.h"

namespace reprise::kernels {

inline void check_lerp(std::span<const LerpTensor> tensors, double decay) {
  constexpr auto op = "lerp";
  check(decay >= 0 && decay <= 1, op, ": decay is ", decay, ", should be in [0, 1]");
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto& [average, value] = tensors[t];
    check(average.shape == value.shape && average.dtype == value.dtype, op, ": average ", t, " is ",
          average.dtype, average.shape, ", its value ", value.dtype, value.shape);
    check(average.is_contiguous() && value.is_contiguous(), op, ": average ", t, " ", average.shape,
          " is not contiguous: strides ", average.strides, ", those of its value ", value.strides);
  }
}

}  // namespace reprise::kernels
