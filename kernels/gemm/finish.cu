// C = residual + row_scale * scale * activation(sums + bias), or sums * activation'(dactivation), element by element.
//
// Bytes: the sums once, each present tensor of the epilogue once, C once (twice if it accumulates). By packs
// of 16 bytes where they fit all of them: one element per thread would keep too few bytes on their way.
#include "reprise/kernels/gemm/finish.h"

#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/gemm/output.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int max_threads = 256;

/// A block takes a row at a time, a thread packs of N columns. Each element is read and written by one
/// thread, so views may coincide.
template <class T, int N>
__global__ void __launch_bounds__(max_threads)
    gemm_finish_kernel(const __grid_constant__ GemmOutput<T> output, Stored<T> sums, int64_t sums_stride,
                       const __grid_constant__ DeviceStrides sums_batch,
                       const __grid_constant__ DeviceShape batch, int64_t rows, int64_t matrix_rows,
                       int64_t n) {
  using C = Accumulator<T>;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const int64_t matrix = row / matrix_rows, i = row - matrix * matrix_rows;
    GemmOutput<T> out = output;
    out.select(matrix, batch);
    const int64_t from = sums ? offset_of(matrix, batch, sums_batch) + i * sums_stride : 0;
    for (int64_t j = int64_t(threadIdx.x) * N; j < n; j += int64_t(blockDim.x) * N) {
      C v[N] = {};
      if (sums) sums.load(from + j, v);
      out.write(i, j, v);
    }
  }
}

/// As many threads as share the items of a row evenly.
unsigned threads_of_row(int64_t items) {
  const int64_t rounds = ceil_div<int64_t>(items, max_threads);
  return unsigned(ceil_div<int64_t>(ceil_div(items, rounds), warp_threads) * warp_threads);
}

}  // namespace

void finish_gemm(const Stream& stream, const TensorView& sums, const gemm_detail::Operands& x,
                 const Epilogue& epilogue) {
  const int64_t m = x.c.size(-2), n = x.c.size(-1), rows = x.c.numel() / n;
  const TensorView batch = batch_of(x.c);
  const bool packed = all_rows_fit_packs(
      {&sums, &x.c, &x.pre_activation, &x.residual, &x.dactivation, &epilogue.bias, &epilogue.scale});
  dispatch_floating(x.a.dtype, "gemm", [&]<class T>() {
    auto run = [&]<int N>() {
      simt::launch({.name = "gemm_finish",
                    .grid = unsigned(std::min<int64_t>(rows, 1 << 20)),
                    .block = threads_of_row(n / N),
                    .stream = stream},
                   gemm_finish_kernel<T, N>, gemm_output_of<T>(x, epilogue), stored_of<T>(sums),
                   sums ? sums.stride(-2) : 0, device_strides(batch_of(sums)), device_shape(batch), rows, m,
                   n);
    };
    constexpr int width = sizeof(T) == 8 ? 1 : pack_size<T>;  // two of f64's erf take too many registers
    // A row of f32 may be a multiple of 16 bytes where it is none of a pack of 16-bit numbers.
    const bool whole = packed && n % width == 0;
    whole ? run.template operator()<width>() : run.template operator()<1>();
  });
}

}  // namespace reprise::kernels
