// cumsum on CUDA: a block for each row, tile by tile; the sum of the tiles before is carried on.
//
//   y[j] = carry + (sum of the warps before + sum of the lanes up to j)
//
// Bytes: x and y once.  Additions: log2(32) per element in a warp, and one per warp before it.
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/reduce/cumulative_sum.h"
#include "reprise/kernels/strided.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256, warps = block_threads / warp_threads;

struct RowsPlan {
  DeviceShape leading;
  std::array<DeviceStrides, 2> strides;  // of the rows of x and y
  int64_t length, x_stride, y_stride;
  bool reverse;
};

/// Of the same size, in which integers wrap.
template <class C>
using SumType = std::conditional_t<std::is_integral_v<C>, uint64_t, C>;

template <class E, class Y>
__global__ void __launch_bounds__(block_threads) cumulative_sum_kernel(const E* x, Y* y, RowsPlan plan) {
  using C = SumType<ComputeType<E>>;
  using Carry = std::conditional_t<std::is_integral_v<C>, uint64_t, double>;
  REPRISE_SHARED(C, totals, [warps]);
  const int lane = int(threadIdx.x) % warp_threads, warp = int(threadIdx.x) / warp_threads;
  const auto [x_row, y_row] = offsets_of<2>(blockIdx.x, plan.leading, plan.strides);
  Carry carry = 0;
  for (int64_t first = 0; first < plan.length; first += block_threads) {
    const int64_t at = first + threadIdx.x, j = plan.reverse ? plan.length - 1 - at : at;
    C sum = at < plan.length ? C(to<ComputeType<E>>(x[x_row + j * plan.x_stride])) : C(0);
#pragma unroll
    for (int offset = 1; offset < warp_threads; offset *= 2) {
      const C before = __shfl_up_sync(full_warp, sum, offset);
      if (lane >= offset) sum += before;
    }
    if (lane == warp_threads - 1) totals[warp] = sum;
    __syncthreads();
    C before = 0, all = 0;
    for (int other = 0; other < warps; ++other) {
      if (other == warp) before = all;
      all += totals[other];
    }
    if (at < plan.length) y[y_row + j * plan.y_stride] = from<Y>(ComputeType<Y>(carry + Carry(before + sum)));
    carry += Carry(all);
    __syncthreads();  // the totals are read before they are written again
  }
}

void cumulative_sum_cuda(const Stream& stream, const TensorView& x, bool reverse, const TensorView& y) {
  check_cumulative_sum(x, y);
  if (y.numel() == 0) return;
  const int last = x.rank() - 1;
  std::array<TensorView, 2> rows = {select(x, last, 0), select(y, last, 0)};
  const int64_t count = rows[0].numel();
  collapse(rows);
  const RowsPlan plan{device_shape(rows[0]), {device_strides(rows[0]), device_strides(rows[1])},
                      x.shape.back(),        x.stride(-1),
                      y.stride(-1),          reverse};
  dispatch_all(x.dtype, [&]<class T>() {
    using Y = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    using Wide = std::conditional_t<std::is_same_v<ComputeType<T>, float>, float, Y>;
    auto run = [&]<class Result>() {
      simt::launch(
          {.name = "cumsum", .grid = grid_of("cumsum", count), .block = block_threads, .stream = stream},
          cumulative_sum_kernel<Element<T>, Element<Result>>, data_of<T>(x), data_of<Result>(y), plan);
    };
    if (y.dtype == dtype_of<Wide>) return run.template operator()<Wide>();
    if constexpr (!std::is_same_v<Wide, Y>) run.template operator()<Y>();
  });
}

const OnCuda cumulative_sum_on_cuda{cumulative_sum, cumulative_sum_cuda};

}  // namespace
}  // namespace reprise::kernels
