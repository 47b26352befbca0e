// Views of any strides in device code: the offset of element i of a row-major walk.
#pragma once

#include <array>

#include "reprise/kernels/cuda/types.cuh"

namespace reprise::kernels::device {

/// The shape that several views share, for use in a kernel; sizes of the last dimension first.
struct DeviceShape {
  int rank = 0;
  int64_t sizes[8] = {};
};

/// One view's strides over such a shape, in elements.
struct DeviceStrides {
  int64_t strides[8] = {};
};

inline DeviceShape device_shape(const TensorView& view) {
  DeviceShape result;
  result.rank = view.rank();
  for (int d = 0; d < view.rank(); ++d) result.sizes[d] = view.shape[view.rank() - 1 - d];
  return result;
}

inline DeviceStrides device_strides(const TensorView& view) {
  DeviceStrides result;
  for (int d = 0; d < view.rank(); ++d) result.strides[d] = view.strides[view.rank() - 1 - d];
  return result;
}

/// The offsets of element `i` in N views of one shape.
template <int N>
__device__ __forceinline__ std::array<int64_t, N> offsets_of(int64_t i, const DeviceShape& shape,
                                                             const std::array<DeviceStrides, N>& strides) {
  std::array<int64_t, N> offsets = {};
#pragma unroll
  for (int d = 0; d < 8; ++d) {
    if (d == shape.rank) break;
    int64_t index = i;
    if (d + 1 < shape.rank) {  // the outermost index is what is left: rank 1 divides nothing
      index = i % shape.sizes[d];
      i /= shape.sizes[d];
    }
#pragma unroll
    for (int k = 0; k < N; ++k) offsets[size_t(k)] += index * strides[size_t(k)].strides[d];
  }
  return offsets;
}

/// The offset of element `i` in one view.
__device__ __forceinline__ int64_t offset_of(int64_t i, const DeviceShape& shape,
                                             const DeviceStrides& strides) {
  return offsets_of<1>(i, shape, {strides})[0];
}

}  // namespace reprise::kernels::device
