// Embedding on CUDA.
//
//   forward    y[i, :] = weight[indices[i], :]             bytes: the rows of y, read and written once
//   backward   dweight[indices[i], :] += dy[i, :]          bytes: dy once, each row of dweight that is met
//   twice
//
// Backward has no atomics: a warp owns a slice of columns of one row of the table and adds the rows of dy
// with its index in the order of i, in f32, which gives the CPU's bits. It finds them by looking through all
// indices if they are few; else positions are sorted by index first (three bytes of index: about 200 bytes a
// position, little beside its row of dy).
#include <array>

#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/row_address.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/index/embedding.h"
#include "reprise/kernels/index/embedding_checks.h"
#include "reprise/kernels/index/stable_sort.cuh"
#include "reprise/kernels/strided.h"
#include "reprise/simt/device_errors.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

const cuda::ErrorCode bad_index("embedding: index {value} at position {row} is outside [0, {limit})");
const cuda::ErrorCode bad_backward(
    "embedding_backward: index {value} at position {row} is outside [0, {limit})");

/// Positions: where each one's index is, and where its row of y or dy begins. Less than 2^32, as are the rows
/// of the table.
struct Positions {
  int64_t count;
  DeviceShape shape;
  DeviceStrides index_strides, row_strides;
  const int64_t* indices;
  int64_t limit;  // rows of the table
  cuda::ErrorSlot* errors;
  int error_code;

  __device__ int64_t index(int64_t i) const { return indices[offset(uint32_t(i), index_strides)]; }
  __device__ int64_t row_offset(int64_t i) const { return offset(uint32_t(i), row_strides); }
  __device__ bool is_inside(int64_t index) const { return index >= 0 && index < limit; }
  __device__ void report(int64_t i, int64_t index) const {
    cuda::report_error(errors, error_code, i, index, limit);
  }

 private:
  /// offset_of by divisions of 32 bits, which take a fifth of the time.
  __device__ int64_t offset(uint32_t i, const DeviceStrides& strides) const {
    int64_t sum = 0;
#pragma unroll
    for (int d = 0; d < 8; ++d) {
      if (d + 1 >= shape.rank) return sum + int64_t(i) * strides.strides[d];
      const auto size = uint32_t(shape.sizes[d]);
      sum += int64_t(i % size) * strides.strides[d];
      i /= size;
    }
    return sum;
  }
};

/// Offsets of rows are counted in units of `unit` elements.
Positions positions_of(const Stream& stream, const TensorView& indices, const TensorView& rows, int unit,
                       const TensorView& table, int error_code) {
  constexpr int64_t most = (int64_t(1) << 32) - 1;
  check(indices.numel() <= most && table.size(0) < most, "embedding: ", indices.numel(), " indices into ",
        table.size(0), " rows: there may be ", most);
  std::array<TensorView, 2> views = {indices, select(rows, rows.rank() - 1, 0)};
  for (int dim = 0; dim < indices.rank(); ++dim) views[1].strides[dim] /= unit;
  collapse(views);
  return {indices.numel(),
          device_shape(views[0]),
          device_strides(views[0]),
          device_strides(views[1]),
          indices.as<int64_t>(),
          table.size(0),
          cuda::error_slot(stream.device()),
          error_code};
}

/// Columns of a table and of rows; strides are in units that are moved at once.
struct Columns {
  int64_t count, table_row, table_stride, row_stride;
};

constexpr int forward_rows = 8;  // of a block: a warp per row

/// U is 16 bytes, or one element.
template <class U>
__global__ void __launch_bounds__(forward_rows* warp_threads)
    embedding_kernel(const U* weight, Positions positions, U* y, Columns columns) {
  const int64_t i = int64_t(blockIdx.x) * forward_rows + threadIdx.y;
  if (i >= positions.count) return;
  const int64_t index = positions.index(i);
  const bool inside = positions.is_inside(index);
  if (!inside && threadIdx.x == 0) positions.report(i, index);
  const U* from = weight + index * columns.table_row;
  U* to = y + positions.row_offset(i);
#pragma unroll 4
  for (int64_t j = threadIdx.x; j < columns.count; j += warp_threads)
    to[j * columns.row_stride] = inside ? from[j * columns.table_stride] : U{};
}

/// The same from one floating dtype to another: packs of N numbers.
template <int N>
__global__ void __launch_bounds__(forward_rows* warp_threads)
    embedding_cast_kernel(AnyFloatPointer weight, Positions positions, AnyFloatPointer y, Columns columns) {
  const int64_t i = int64_t(blockIdx.x) * forward_rows + threadIdx.y;
  if (i >= positions.count) return;
  const int64_t index = positions.index(i);
  const bool inside = positions.is_inside(index);
  if (!inside && threadIdx.x == 0) positions.report(i, index);
  const AnyFloatPointer from = weight + index * columns.table_row, to = y + positions.row_offset(i);
#pragma unroll 4
  for (int64_t j = int64_t(threadIdx.x) * N; j < columns.count; j += warp_threads * N) {
    Pack<float, N> pack{};
    if (inside) pack = load_pack<N>(from + j * columns.table_stride);
    store_pack(to + j * columns.row_stride, pack);
  }
}

void cast_rows(const Stream& stream, const TensorView& weight, const TensorView& indices,
               const TensorView& y) {
  const Positions positions = positions_of(stream, indices, y, 1, weight, bad_index);
  const Columns columns{weight.size(1), weight.stride(0), weight.stride(1), y.stride(-1)};
  auto launch = [&](auto kernel) {
    simt::launch({.name = "embedding",
                  .grid = grid_of("embedding", ceil_div<int64_t>(positions.count, forward_rows)),
                  .block = dim3(warp_threads, forward_rows),
                  .stream = stream},
                 kernel, AnyFloatPointer(weight), positions, AnyFloatPointer(y), columns);
  };
  const std::array views = {&weight, &y};
  if (fit_of_any(views) == Fit::whole) return launch(embedding_cast_kernel<pack_size<AnyFloat>>);
  launch(embedding_cast_kernel<1>);
}

void embedding_cuda(const Stream& stream, const TensorView& weight, const TensorView& indices,
                    const TensorView& y) {
  constexpr auto op = "embedding";
  check_embedding(op, weight, indices, y, "y");
  check_row_dtypes(op, weight, y);
  if (y.numel() == 0) return;
  if (weight.dtype != y.dtype) return cast_rows(stream, weight, indices, y);
  const int64_t width = weight.size(1), size = int64_t(size_of(y.dtype));
  auto run = [&]<class U>(U, int unit) {
    const Positions positions = positions_of(stream, indices, y, unit, weight, bad_index);
    const Columns columns{width / unit, weight.stride(0) / unit, weight.stride(1), y.stride(-1)};
    simt::launch({.name = "embedding",
                  .grid = grid_of("embedding", ceil_div<int64_t>(positions.count, forward_rows)),
                  .block = dim3(warp_threads, forward_rows),
                  .stream = stream},
                 embedding_kernel<U>, static_cast<const U*>(weight.data), positions, static_cast<U*>(y.data),
                 columns);
  };
  if (all_rows_fit_packs({&weight, &y})) return run(uint4{}, int(16 / size));
  switch (size) {
    case 1:
      return run(uint8_t{}, 1);
    case 2:
      return run(uint16_t{}, 1);
    case 4:
      return run(uint32_t{}, 1);
    default:
      return run(uint64_t{}, 1);
  }
}

/// N columns of one row of dweight, to which rows of dy are added.
template <int N, class D, class E>
struct RowSum {
  using C = Accumulator<D>;
  const Positions& positions;
  const E* dy;  // the first row, at these columns
  C sum[N];

  __device__ __forceinline__ void add(const Pack<E, N>& row) {
#pragma unroll
    for (int e = 0; e < N; ++e) sum[e] += to<C>(row.at[e]);
  }

  /// Adds the rows at `position` of the lanes in `lanes`, lowest first. Eight are on their way at once.
  __device__ __forceinline__ void add_rows(unsigned lanes, int64_t position) {
    constexpr int batch = 8;
    auto next_row = [&] {
      const int lane = __ffs(int(lanes)) - 1;
      lanes &= lanes - 1;
      const int64_t from = positions.row_offset(__shfl_sync(full_warp, position, lane));
      return load_pack<N>(dy + from);
    };
    for (int left = __popc(lanes); left >= batch; left -= batch) {
      Pack<E, N> rows[batch];
#pragma unroll
      for (Pack<E, N>& row : rows) row = next_row();
#pragma unroll
      for (const Pack<E, N>& row : rows) add(row);
    }
    while (lanes != 0) add(next_row());
  }
};

constexpr int backward_warps = 4;  // of a block

/// The position, or sorted item, that this warp looks after; the slice of columns is blockIdx.y.
__device__ __forceinline__ int64_t this_task() {
  return int64_t(blockIdx.x) * backward_warps + threadIdx.x / warp_threads;
}

/// Calls gather(row_sum) on this lane's columns of dweight[index], and writes what it adds up.
template <int N, class D, class E, class Gather>
__device__ __forceinline__ void add_to_row(D* dweight, int64_t index, const Columns& columns, const E* dy,
                                           const Positions& positions, Gather&& gather) {
  const int lane = int(threadIdx.x) % warp_threads;
  const int64_t column = (int64_t(blockIdx.y) * warp_threads + lane) * N;
  const bool active = column < columns.count;
  D* to_row = dweight + index * columns.table_row + column * columns.table_stride;
  // Lanes past the last column read the first ones, and throw them away.
  RowSum<N, D, E> row{positions, dy + (active ? column * columns.row_stride : 0), {}};
  if (active) {
    Pack<D, N> old = load_pack<N>(to_row);
#pragma unroll
    for (int e = 0; e < N; ++e) row.sum[e] = to<Accumulator<D>>(old.at[e]);
  }
  gather(row);
  if (!active) return;
  Pack<D, N> pack;
#pragma unroll
  for (int e = 0; e < N; ++e) pack.at[e] = from<D>(row.sum[e]);
  store_pack(to_row, pack);
}

/// Few positions: the first with its index looks for the others among all that follow.
template <int N, class D, class E>
__global__ void __launch_bounds__(backward_warps* warp_threads, 8)
    add_few_rows_kernel(const E* dy, Positions positions, D* dweight, Columns columns) {
  const int64_t at = this_task();
  const int lane = int(threadIdx.x) % warp_threads;
  if (at >= positions.count) return;
  const int64_t index = positions.index(at);
  if (!positions.is_inside(index)) {
    if (lane == 0) positions.report(at, index);
    return;
  }
  for (int64_t i = lane; i - lane < at; i += warp_threads)
    if (__any_sync(full_warp, i < at && positions.index(i) == index)) return;
  add_to_row<N>(dweight, index, columns, dy, positions, [&](auto& row) {
    for (int64_t i = at + lane; i - lane < positions.count; i += warp_threads) {
      const bool same = i < positions.count && positions.index(i) == index;
      row.add_rows(__ballot_sync(full_warp, same), i);
    }
  });
}

/// Positions sorted by index: the first item of an index adds the rows of those behind it.
template <int N, class D, class E>
__global__ void __launch_bounds__(backward_warps* warp_threads, 8)
    add_sorted_rows_kernel(const Keyed* items, const E* dy, Positions positions, D* dweight,
                           Columns columns) {
  const int64_t at = this_task();
  const int lane = int(threadIdx.x) % warp_threads;
  if (at >= positions.count) return;
  const uint32_t index = items[at].key;
  if (index == positions.limit || (at > 0 && items[at - 1].key == index)) return;
  add_to_row<N>(dweight, index, columns, dy, positions, [&](auto& row) {
    unsigned lanes = full_warp;
    for (int64_t i = at + lane; lanes == full_warp; i += warp_threads) {
      const bool exists = i < positions.count;
      const Keyed item = exists ? items[i] : Keyed{};
      lanes = __ballot_sync(full_warp, exists && item.key == index);
      row.add_rows(lanes, item.position);
    }
  });
}

/// Each position with its index as the key; a bad index is reported, and gets the key behind all others.
struct IndexKeys {
  Positions positions;
  __device__ Keyed operator()(int64_t i) const {
    const int64_t index = positions.index(i);
    const bool inside = positions.is_inside(index);
    if (!inside) positions.report(i, index);
    return {uint32_t(inside ? index : positions.limit), uint32_t(i)};
  }
};

template <int N, class D, class E>
void add_rows(const Stream& stream, const E* dy, const Positions& positions, D* dweight,
              const Columns& columns) {
  const dim3 grid(unsigned(ceil_div<int64_t>(positions.count, backward_warps)),
                  unsigned(ceil_div<int64_t>(columns.count, warp_threads * N)));
  check(grid.y < 1 << 16, "embedding_backward: the table has ", columns.count, " columns");
  const dim3 block = backward_warps * warp_threads;
  if (positions.count <= kSearchedPositions)  // looking through all is faster than sorting
    return simt::launch({.name = "embedding_backward", .grid = grid, .block = block, .stream = stream},
                        add_few_rows_kernel<N, D, E>, dy, positions, dweight, columns);
  Workspace workspace(stream, stable_sort_bytes(positions.count));
  const Keyed* items =
      stable_sort(stream, IndexKeys{positions}, positions.count, uint32_t(positions.limit), workspace);
  simt::launch({.name = "embedding_backward", .grid = grid, .block = block, .stream = stream},
               add_sorted_rows_kernel<N, D, E>, items, dy, positions, dweight, columns);
}

template <class T, class D>
void backward(const Stream& stream, const TensorView& dy, const TensorView& indices,
              const TensorView& dweight) {
  constexpr int pack = int(16 / std::max(sizeof(T), sizeof(D)));
  const Positions positions = positions_of(stream, indices, dy, 1, dweight, bad_backward);
  const Columns columns{dweight.size(1), dweight.stride(0), dweight.stride(1), dy.stride(-1)};
  if (rows_fit_packs(dy, pack * sizeof(T)) && rows_fit_packs(dweight, pack * sizeof(D)))
    add_rows<pack>(stream, data_of<T>(dy), positions, data_of<D>(dweight), columns);
  else
    add_rows<1>(stream, data_of<T>(dy), positions, data_of<D>(dweight), columns);
}

void embedding_backward_cuda(const Stream& stream, const TensorView& dy, const TensorView& indices,
                             const TensorView& dweight) {
  constexpr auto op = "embedding_backward";
  check_embedding(op, dweight, indices, dy, "dy");
  check_table_gradient(op, dy, dweight);
  if (dy.numel() == 0) return;
  dispatch_floating(dy.dtype, op, [&]<class T>() {
    if (dweight.dtype == dy.dtype)
      backward<T, T>(stream, dy, indices, dweight);
    else
      backward<T, Accumulator<T>>(stream, dy, indices, dweight);
  });
}

const OnCuda embedding_on_cuda{embedding, embedding_cuda};
const OnCuda embedding_backward_on_cuda{embedding_backward, embedding_backward_cuda};

}  // namespace
}  // namespace reprise::kernels
