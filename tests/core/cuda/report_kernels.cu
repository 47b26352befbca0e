// A lookup that reports what is outside of its table.
#include "reprise/simt/device_errors.h"
#include "reprise/tests/core/cuda/report_kernels.h"

namespace reprise {
namespace {

const cuda::ErrorCode bad_index("look_up: index {value} in row {row} is outside [0, {limit})");

__global__ void look_up_kernel(const float* table, int64_t rows, const int64_t* index, int64_t n, float* y,
                               cuda::ErrorSlot* slot, int code) {
  int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (index[i] < 0 || index[i] >= rows)
    cuda::report_error(slot, code, i, index[i], rows);
  else
    y[i] = table[index[i]];
}

void look_up_cuda(const Stream& stream, const TensorView& table, const TensorView& index,
                  const TensorView& y) {
  const int64_t n = index.numel();
  if (n == 0) return;
  simt::launch(
      {.name = "look_up", .grid = dim3(unsigned((n + 63) / 64)), .block = dim3(64), .stream = stream},
      look_up_kernel, table.as<float>(), table.numel(), index.as<int64_t>(), n, y.as<float>(),
      cuda::error_slot(stream.device()), int(bad_index));
}

const kernels::OnCuda look_up_on_cuda{look_up, look_up_cuda};

}  // namespace
}  // namespace reprise
