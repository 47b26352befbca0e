// C = epilogue(A B) by tiles in shared memory: any strides, any dtype, sums over K in order. It is what the
// emulator runs, and what a GPU falls back to where cuBLASLt does not take a product.
//
// Operations: 2 M N K. Bytes from memory or cache: a tile of C reads its rows of A and its columns of B once,
// so A is read N / 64 times and B M / 64 times: 8 operations for each byte of f32, enough for the ordinary
// units, not for tensor cores.
//
// A thread holds 4 x 4 sums, 16 rows and columns apart: neighbours in a warp read neighbours in shared memory
// and write neighbours in C. The next tile is on its way in registers while the present one is multiplied.
#include "reprise/kernels/gemm/gemm.h"

#include "reprise/kernels/gemm/cublaslt.h"
#include "reprise/kernels/gemm/finish.h"
#include "reprise/kernels/gemm/output.cuh"

namespace reprise::kernels {
namespace {

using namespace device;
using gemm_detail::Operands;

constexpr int side = 64, depth = 16;     // of a tile
constexpr int lanes = 16, per_lane = 4;  // side = lanes * per_lane
constexpr int threads = lanes * lanes;
constexpr int loads = side * depth / threads;  // of a thread, from each operand

/// An operand in tiles: `stride` between the rows of A (the columns of B), `k_stride` along the sum.
template <class E>
struct Side {
  const E* data;
  int64_t stride, k_stride;
  int64_t count;   ///< rows of A, columns of B
  bool k_is_fast;  ///< neighbouring threads read along k
  DeviceStrides batch_strides;
};

template <class T>
struct Problem {
  Side<Element<T>> a, b;
  GemmOutput<T> out;
  DeviceShape batch;
  int64_t k, tiles_m, tiles_n, tiles;
};

/// Item i of a tile that this thread loads: its row (column of B) and its k.
struct Place {
  int at, k;
  __device__ Place(int i, bool k_is_fast) {
    const int item = int(threadIdx.x) + i * threads;
    at = k_is_fast ? item / depth : item % side;
    k = k_is_fast ? item % depth : item / side;
  }
};

/// This thread's share of the tile that starts at (first, k0); zeros outside the matrix.
template <class C, class E>
__device__ __forceinline__ void fetch(const Side<E>& from, int64_t first, int64_t k0, int64_t k,
                                      C (&values)[loads]) {
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const Place place(i, from.k_is_fast);
    const int64_t at = first + place.at, p = k0 + place.k;
    values[i] = at < from.count && p < k ? to<C>(from.data[at * from.stride + p * from.k_stride]) : C(0);
  }
}

/// One more column than the tile is wide: threads that load along k would share a bank.
template <class C>
using Tile = C[depth][side + 1];

template <class C>
__device__ __forceinline__ void keep(const C (&values)[loads], bool k_is_fast, Tile<C>& tile) {
#pragma unroll
  for (int i = 0; i < loads; ++i) {
    const Place place(i, k_is_fast);
    tile[place.k][place.at] = values[i];
  }
}

template <class C>
__device__ __forceinline__ void multiply(const Tile<C>& a, const Tile<C>& b, int row, int column,
                                         C (&sums)[per_lane][per_lane]) {
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    C left[per_lane], right[per_lane];
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
      left[i] = a[k][row + i * lanes];
      right[i] = b[k][column + i * lanes];
    }
#pragma unroll
    for (int i = 0; i < per_lane; ++i)
#pragma unroll
      for (int j = 0; j < per_lane; ++j) sums[i][j] += left[i] * right[j];
  }
}

template <class T>
__global__ void __launch_bounds__(threads, 1) gemm_kernel(const __grid_constant__ Problem<T> problem) {
  using C = Accumulator<T>;
  REPRISE_SHARED(C, shared_a, [depth][side + 1]);
  REPRISE_SHARED(C, shared_b, [depth][side + 1]);
  const int row = int(threadIdx.x) / lanes, column = int(threadIdx.x) % lanes;
  for (int64_t tile = blockIdx.x; tile < problem.tiles; tile += gridDim.x) {
    const int64_t tile_m = tile % problem.tiles_m, rest = tile / problem.tiles_m;
    const int64_t tile_n = rest % problem.tiles_n, matrix = rest / problem.tiles_n;
    Side<Element<T>> a = problem.a, b = problem.b;
    a.data += offset_of(matrix, problem.batch, a.batch_strides);
    b.data += offset_of(matrix, problem.batch, b.batch_strides);
    const int64_t first_row = tile_m * side, first_column = tile_n * side;

    C sums[per_lane][per_lane] = {};
    C next_a[loads], next_b[loads];
    fetch(a, first_row, 0, problem.k, next_a);
    fetch(b, first_column, 0, problem.k, next_b);
    for (int64_t k0 = 0; k0 < problem.k; k0 += depth) {
      keep(next_a, a.k_is_fast, shared_a);
      keep(next_b, b.k_is_fast, shared_b);
      __syncthreads();
      fetch(a, first_row, k0 + depth, problem.k, next_a);
      fetch(b, first_column, k0 + depth, problem.k, next_b);
      multiply<C>(shared_a, shared_b, row, column, sums);
      __syncthreads();
    }

    GemmOutput<T> out = problem.out;
    out.select(matrix, problem.batch);
#pragma unroll
    for (int i = 0; i < per_lane; ++i)
#pragma unroll
      for (int j = 0; j < per_lane; ++j) {
        const int64_t at_row = first_row + row + i * lanes, at_column = first_column + column + j * lanes;
        C sum[1] = {sums[i][j]};
        if (at_row < a.count && at_column < b.count) out.write(at_row, at_column, sum);
      }
  }
}

template <class T>
Side<Element<T>> side_of(const TensorView& x, int dim, int k_dim) {
  return {.data = data_of<T>(x),
          .stride = x.stride(dim),
          .k_stride = x.stride(k_dim),
          .count = x.size(dim),
          .k_is_fast = x.stride(k_dim) == 1,
          .batch_strides = device_strides(batch_of(x))};
}

template <class T>
void multiply_tiles(const Stream& stream, const Operands& x, const Epilogue& epilogue) {
  const TensorView batch = batch_of(x.c);
  const int64_t tiles_m = ceil_div<int64_t>(x.c.size(-2), side),
                tiles_n = ceil_div<int64_t>(x.c.size(-1), side);
  const Problem<T> problem{.a = side_of<T>(x.a, -2, -1),
                           .b = side_of<T>(x.b, -1, -2),
                           .out = gemm_output_of<T>(x, epilogue),
                           .batch = device_shape(batch),
                           .k = x.a.size(-1),
                           .tiles_m = tiles_m,
                           .tiles_n = tiles_n,
                           .tiles = tiles_m * tiles_n * batch.numel()};
  constexpr int64_t max_blocks = 0x7fffffff;
  simt::launch({.name = "gemm",
                .grid = unsigned(std::min(problem.tiles, max_blocks)),
                .block = threads,
                .stream = stream},
               gemm_kernel<T>, problem);
}

void gemm_cuda(const Stream& stream, const GemmArguments& arguments) {
  Operands x = gemm_detail::fit_operands(arguments);
  const TensorView &a = arguments.a, &c = arguments.c;
  const Epilogue& epilogue = arguments.epilogue;
  if (epilogue.bias_gradient) {
    gemm_detail::sum_rows(stream, a, epilogue.bias_gradient);
    return gemm_cuda(stream,
                     {.a = a, .b = arguments.b, .c = c, .epilogue = {.accumulate = epilogue.accumulate}});
  }
  if (c.numel() == 0) return;
  gemm_detail::join_batches(x);
  if (a.size(-1) == 0) return finish_gemm(stream, {}, x, epilogue);
  if (vendor::cublaslt_gemm(stream, x, epilogue)) return;
  dispatch_floating(a.dtype, "gemm", [&]<class T>() { multiply_tiles<T>(stream, x, epilogue); });
}

const OnCuda gemm_on_cuda{gemm, gemm_cuda};

}  // namespace
}  // namespace reprise::kernels
