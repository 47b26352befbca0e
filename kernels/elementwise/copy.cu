// Copies and fills on CUDA. Bytes: each element is read once and written once, a fill only writes. Most
// copies are the elementwise kernel; where x is contiguous along one dimension and y along another, tiles go
// through shared memory, so that both sides move whole cache lines.
#include "reprise/kernels/elementwise/copy.h"

#include <bit>
#include <limits>

#include "reprise/kernels/elementwise/elementwise.cuh"

namespace reprise::kernels {
namespace {

using namespace device;

/// Elements as they are: U is an unsigned integer of their size.
template <class U>
struct Move {
  using Inputs = Types<U>;
  using Outputs = Types<U>;
  static constexpr bool uses_index = false, by_element = false;

  template <int N>
  __device__ void operator()(int64_t, const Pack<U, N>& x, Pack<U, N>& y) const {
    y = x;
  }
};

template <class U>
struct Fill {
  using Inputs = Types<>;
  using Outputs = Types<U>;
  static constexpr bool uses_index = false, by_element = false;
  U value;

  template <int N>
  __device__ void operator()(int64_t, Pack<U, N>& y) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = value;
  }
};

/// `convert` of kernels/convert.h, which says what becomes of numbers that do not fit.
template <class To, class From>
struct Cast {
  using Inputs = Types<Element<From>>;
  using Outputs = Types<Element<To>>;
  static constexpr bool uses_index = false, by_element = false;
  using C = ComputeType<From>;

  static __device__ Element<To> cast(C value) {
    if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool> && std::is_floating_point_v<C>) {
      constexpr To lowest = std::numeric_limits<To>::min(), highest = std::numeric_limits<To>::max();
      constexpr C above = C(highest / 2 + 1) * 2;  // highest + 1, exact in f32 and f64
      if (!(value > C(lowest))) return value <= C(lowest) ? lowest : To(0);
      return value < above ? To(value) : highest;
    } else {
      return from<Element<To>>(value);
    }
  }

  template <int N>
  __device__ void operator()(int64_t, const Pack<Element<From>, N>& x, Pack<Element<To>, N>& y) const {
#pragma unroll
    for (int i = 0; i < N; ++i) y.at[i] = cast(to<C>(x.at[i]));
  }
};

constexpr int tile_lanes = kCopyTile, tile_warps = 8;

/// Matrices to be transposed, one for each item of `batch`: y[i, j] = x[i, j] where x is contiguous along i
/// and y along j. Strides are in elements.
struct Transpose {
  int64_t rows, columns;       // of y
  int64_t x_stride, y_stride;  // from one j to the next in x, from one i to the next in y
  Divisor row_tiles, column_tiles;
  MapPlan<2> batch;
};

/// A block moves one tile of side 32 Width. A warp reads 32 packs of Width elements along i and writes as
/// many along j. The odd pitch puts the elements that a warp takes down a column of the tile into 32 banks.
template <class U, int Width>
__global__ void __launch_bounds__(tile_lanes* tile_warps)
    transpose_kernel(const __grid_constant__ Transpose plan) {
  constexpr int side = tile_lanes * Width;
  REPRISE_SHARED(U, tile, [side][side + 1]);
  const int64_t rest = plan.column_tiles.narrow_quotient(blockIdx.x);
  const int64_t j0 = (blockIdx.x - rest * plan.column_tiles.value()) * side;
  const int64_t matrix = plan.row_tiles.narrow_quotient(rest);
  const int64_t i0 = (rest - matrix * plan.row_tiles.value()) * side;
  int64_t offsets[2];
  find_item(plan.batch, matrix, 1, offsets);
  const int lane = int(threadIdx.x) * Width, warp = int(threadIdx.y);

  const U* x = static_cast<const U*>(plan.batch.data[0]) + offsets[0];
#pragma unroll
  for (int j = warp; j < side; j += tile_warps) {
    if (i0 + lane >= plan.rows || j0 + j >= plan.columns) continue;
    const auto pack = load_pack<Width>(x + (j0 + j) * plan.x_stride + i0 + lane);
#pragma unroll
    for (int k = 0; k < Width; ++k) tile[j][lane + k] = pack.at[k];
  }
  __syncthreads();
  U* y = static_cast<U*>(plan.batch.data[1]) + offsets[1];
#pragma unroll
  for (int i = warp; i < side; i += tile_warps) {
    if (i0 + i >= plan.rows || j0 + lane >= plan.columns) continue;
    Pack<U, Width> pack;
#pragma unroll
    for (int k = 0; k < Width; ++k) pack.at[k] = tile[lane + k][i];
    store_pack(y + (i0 + i) * plan.y_stride + j0 + lane, pack);
  }
}

/// The dimension along which x is contiguous, if y is along its last and both are long enough for tiles;
/// else -1.
int transposed_dim(const TensorView& x, const TensorView& y) {
  constexpr int64_t enough = 8;
  const int last = y.rank() - 1;
  if (y.strides[last] != 1 || y.shape[last] < enough) return -1;
  for (int dim = 0; dim < last; ++dim)
    if (x.strides[dim] == 1 && x.shape[dim] >= enough) return dim;
  return -1;
}

/// Whether everything that says where elements are is a multiple of `width` elements.
bool are_multiples(const Transpose& plan, int64_t width, int64_t bytes) {
  int64_t joined = plan.rows | plan.columns | plan.x_stride | plan.y_stride;
  for (int k = 0; k < 2; ++k) {
    joined |= int64_t(reinterpret_cast<uintptr_t>(plan.batch.data[size_t(k)])) / bytes;
    if (int64_t(reinterpret_cast<uintptr_t>(plan.batch.data[size_t(k)])) % bytes != 0) return false;
    for (int d = 0; d < plan.batch.rank; ++d) joined |= plan.batch.strides[k][d];
  }
  return joined % width == 0;
}

template <class U, int Width>
void transpose_tiles(const Stream& stream, Transpose plan) {
  constexpr int64_t side = tile_lanes * Width;
  plan.row_tiles = Divisor(ceil_div(plan.rows, side));
  plan.column_tiles = Divisor(ceil_div(plan.columns, side));
  const int64_t blocks = plan.batch.items * plan.row_tiles.value() * plan.column_tiles.value();
  simt::launch({.name = "copy transposed",
                .grid = dim3(unsigned(blocks)),
                .block = dim3(tile_lanes, tile_warps),
                .stream = stream},
               transpose_kernel<U, Width>, plan);
}

template <class U>
void copy_transposed(const Stream& stream, const TensorView& x, const TensorView& y, int row_dim) {
  const int column_dim = y.rank() - 1;
  auto without_matrix = [&](const TensorView& view) {
    return select(select(view, column_dim, 0), row_dim, 0);
  };
  std::array<TensorView, 2> rest = {without_matrix(x), without_matrix(y)};
  collapse(rest);
  Transpose plan = {.rows = y.shape[row_dim],
                    .columns = y.shape[column_dim],
                    .x_stride = x.strides[column_dim],
                    .y_stride = y.strides[row_dim],
                    .row_tiles = {},
                    .column_tiles = {},
                    .batch = plan_map(rest, 1, 1)};
  if constexpr (sizeof(U) == 2)  // pairs: a warp's access is a whole cache line
    if (are_multiples(plan, 2, sizeof(U))) return transpose_tiles<U, 2>(stream, plan);
  transpose_tiles<U, 1>(stream, plan);
}

void copy_cuda(const Stream& stream, const TensorView& x, const TensorView& y) {
  check_same_shape("copy", x, y);
  if (y.numel() == 0) return;
  if (x.dtype != y.dtype)
    return dispatch_all(x.dtype, [&]<class From>() {
      dispatch_all(y.dtype, [&]<class To>() {
        if constexpr (!std::is_same_v<From, To>) map("copy", stream, Cast<To, From>{}, x, y);
      });
    });
  std::array<TensorView, 2> views = {x, y};
  order_like_last(views);
  collapse(views);
  const int row_dim = transposed_dim(views[0], views[1]);
  dispatch_bits(y.dtype, [&]<class U>() {
    if (row_dim >= 0)
      copy_transposed<U>(stream, views[0], views[1], row_dim);
    else
      map("copy", stream, Move<U>{}, views[0], views[1]);
  });
}

void fill_cuda(const Stream& stream, const TensorView& y, double value) {
  dispatch_all(y.dtype, [&]<class T>() {
    const T element = convert<T>(value);
    dispatch_bits(y.dtype, [&]<class U>() {
      if constexpr (sizeof(U) == sizeof(T)) map("fill", stream, Fill<U>{std::bit_cast<U>(element)}, y);
    });
  });
}

const OnCuda copy_on_cuda{copy, copy_cuda};
const OnCuda fill_on_cuda{fill, fill_cuda};

}  // namespace
}  // namespace reprise::kernels
