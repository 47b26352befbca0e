// C = activation(sums + bias) + residual, or sums * activation'(dactivation), element by element.
//
// Bytes: the sums once, each present tensor of the epilogue once, C once (twice if it accumulates).
#include "reprise/kernels/gemm_finish.h"

#include "reprise/kernels/device/gemm_output.cuh"
#include "reprise/kernels/device/reduce.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int max_threads = 256;

/// A block takes a row at a time. Each element is read and written by one thread, so views may coincide.
template <class T>
__global__ void __launch_bounds__(max_threads)
    gemm_finish_kernel(const __grid_constant__ GemmOutput<T> output, const Element<T>* sums,
                       int64_t sums_step, const __grid_constant__ Steps sums_batch,
                       const __grid_constant__ Extents batch, int64_t rows, int64_t matrix_rows, int64_t n) {
  using C = Accumulator<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t matrix = row / matrix_rows, i = row - matrix * matrix_rows;
    GemmOutput<T> out = output;
    out.select(matrix, batch);
    const Element<T>* from = sums ? sums + offset_of(matrix, batch, sums_batch) + i * sums_step : nullptr;
    for (int64_t j = threadIdx.x; j < n; j += blockDim.x) out.write(i, j, from ? to<C>(from[j]) : C(0));
  }
}

}  // namespace

void finish_gemm(const Stream& stream, const TensorView& sums, const gemm_detail::Operands& x,
                 const Epilogue& epilogue) {
  const int64_t m = x.c.size(-2), n = x.c.size(-1), rows = x.c.numel() / n;
  const TensorView batch = batch_of(x.c);
  const int64_t threads = std::min<int64_t>(max_threads, ceil_div<int64_t>(n, warp_threads) * warp_threads);
  dispatch_floating(x.c.dtype, "gemm", [&]<class T>() {
    simt::launch({.name = "gemm_finish",
                  .grid = unsigned(std::min<int64_t>(rows, 1 << 20)),
                  .block = unsigned(threads),
                  .stream = stream},
                 gemm_finish_kernel<T>, gemm_output_of<T>(x, epilogue), data_of<T>(sums),
                 sums ? sums.stride(-2) : 0, steps_of(batch_of(sums)), extents_of(batch), rows, m, n);
  });
}

}  // namespace reprise::kernels
