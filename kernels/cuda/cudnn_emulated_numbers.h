// Numbers in memory by cuDNN's names of their types. Used in builds with REPRISE_CUDA=EMULATED only.
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <cstdint>

#include "reprise/core/dtype.h"

namespace reprise::kernels::emulated {

inline size_t size_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return 8;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_BOOLEAN:
      return 1;
    default:
      return 4;
  }
}

inline double read_number(const void* data, int64_t at, cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      return static_cast<const double*>(data)[at];
    case CUDNN_DATA_HALF:
      return double(float(static_cast<const Float16*>(data)[at]));
    case CUDNN_DATA_BFLOAT16:
      return double(float(static_cast<const BFloat16*>(data)[at]));
    default:
      return double(static_cast<const float*>(data)[at]);
  }
}

inline void write_number(void* data, int64_t at, cudnnDataType_t type, double x) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
      static_cast<double*>(data)[at] = x;
      break;
    case CUDNN_DATA_HALF:
      static_cast<Float16*>(data)[at] = Float16(float(x));
      break;
    case CUDNN_DATA_BFLOAT16:
      static_cast<BFloat16*>(data)[at] = BFloat16(float(x));
      break;
    default:
      static_cast<float*>(data)[at] = float(x);
  }
}

}  // namespace reprise::kernels::emulated
