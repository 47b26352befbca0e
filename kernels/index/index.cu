// Gather, scatter, one_hot and arange on CUDA. Each element of the outputs and of the index is touched once;
// gather and arange are bound by memory.
//
//   gather       y[r, i] = x[r, index[r, i]]         a thread per element
//   scatter_add  y[r, index[r, i]] += x[r, i]        a warp per row, 32 elements at a time in the order of i;
//                                                    equal indices among them are added up by one lane
//   scatter      y[r, index[r, i]] = x[r, i]         the same, where the last of equal indices writes
//   one_hot      y[r, c] = c == index[r]             a thread per element
//   arange       y[i] = i                            a thread per element
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/index/index.h"
#include "reprise/kernels/index/index_checks.h"
#include "reprise/simt/device_errors.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;

const cuda::ErrorCode bad_gather("gather: index {value} at element {row} is outside [0, {limit})");
const cuda::ErrorCode bad_one_hot("one_hot: index {value} at element {row} is outside [0, {limit})");
const cuda::ErrorCode bad_scatter("scatter: index {value} at element {row} is outside [0, {limit})");
const cuda::ErrorCode bad_scatter_add("scatter_add: index {value} at element {row} is outside [0, {limit})");

unsigned blocks_for(const char* kernel, int64_t threads) {
  return grid_of(kernel, ceil_div<int64_t>(threads, block_threads));
}

__device__ __forceinline__ int64_t this_thread() { return int64_t(blockIdx.x) * block_threads + threadIdx.x; }

/// Indices of either type, and how to tell that one is wrong.
struct IndexList {
  const void* data;
  bool is_wide;   // i64, else i32
  int64_t limit;  // of the dimension they index
  cuda::ErrorSlot* errors;
  int error_code;

  __device__ int64_t at(int64_t offset) const {
    return is_wide ? static_cast<const int64_t*>(data)[offset] : static_cast<const int32_t*>(data)[offset];
  }
  /// Whether `index`, element `place`, is inside; reports it if it is not.
  __device__ bool accepts(int64_t index, int64_t place) const {
    if (index >= 0 && index < limit) return true;
    cuda::report_error(errors, error_code, place, index, limit);
    return false;
  }
};

IndexList index_list(const Stream& stream, const TensorView& index, int64_t limit, int error_code) {
  return {index.data, index.dtype == DType::i64, limit, cuda::error_slot(stream.device()), error_code};
}

/// Calls run with an unsigned number of the dtype's size, for elements that are only moved.
template <class Run>
void by_size(DType dtype, const Run& run) {
  switch (size_of(dtype)) {
    case 1:
      return run(uint8_t{});
    case 2:
      return run(uint16_t{});
    case 4:
      return run(uint32_t{});
    default:
      return run(uint64_t{});
  }
}

/// One shape for all: strides of x (0 along the last dimension), index and y.
template <class U>
__global__ void __launch_bounds__(block_threads)
    gather_kernel(const U* x, IndexList index, U* y, DeviceShape shape, std::array<DeviceStrides, 3> strides,
                  int64_t x_stride, int64_t count) {
  const int64_t i = this_thread();
  if (i >= count) return;
  const auto [x_row, index_at, y_at] = offsets_of<3>(i, shape, strides);
  const int64_t from = index.at(index_at);
  y[y_at] = index.accepts(from, i) ? x[x_row + from * x_stride] : U(0);
}

void gather_cuda(const Stream& stream, const TensorView& x, const TensorView& index, const TensorView& y) {
  check_index_views("gather", x, index, y);
  if (y.numel() == 0) return;
  std::array<TensorView, 3> views = {x, index, y};
  views[0].shape = index.shape;
  views[0].strides[x.rank() - 1] = 0;
  collapse(views);
  const std::array<DeviceStrides, 3> strides = {device_strides(views[0]), device_strides(views[1]),
                                                device_strides(views[2])};
  const IndexList list = index_list(stream, index, x.shape.back(), bad_gather);
  auto run = [&]<class U>(U) {
    simt::launch(
        {.name = "gather", .grid = blocks_for("gather", y.numel()), .block = block_threads, .stream = stream},
        gather_kernel<U>, static_cast<const U*>(x.data), list, static_cast<U*>(y.data),
        device_shape(views[1]), strides, x.stride(-1), y.numel());
  };
  by_size(y.dtype, run);
}

struct ScatterPlan {
  DeviceShape leading;
  std::array<DeviceStrides, 3> strides;  // of the rows of x, index and y
  int64_t rows, length, x_stride, index_stride, y_stride;

  /// Where element i of a row goes in y; -1 past the row's end and where the index is bad.
  __device__ int64_t place(const IndexList& index, int64_t row, int64_t index_row, int64_t i) const {
    if (i >= length) return -1;
    const int64_t given = index.at(index_row + i * index_stride);
    return index.accepts(given, row * length + i) ? given : -1;
  }
};

/// sum + x, rounded to E. Integers wrap.
template <class E>
__device__ __forceinline__ E add(E sum, ComputeType<E> x) {
  if constexpr (std::is_integral_v<E>)
    return from<E>(int64_t(uint64_t(sum) + uint64_t(x)));
  else
    return from<E>(to<ComputeType<E>>(sum) + x);
}

template <class E>
__global__ void __launch_bounds__(block_threads)
    scatter_add_kernel(const E* x, IndexList index, E* y, ScatterPlan plan) {
  using C = ComputeType<E>;
  const int64_t row = this_thread() / warp_threads;
  const int lane = int(threadIdx.x) % warp_threads;
  if (row >= plan.rows) return;  // a warp leaves as one
  const auto [x_row, index_row, y_row] = offsets_of<3>(row, plan.leading, plan.strides);
  for (int64_t first = 0; first < plan.length; first += warp_threads) {
    const int64_t i = first + lane;
    const int64_t place = plan.place(index, row, index_row, i);
    const C value = i < plan.length ? to<C>(x[x_row + i * plan.x_stride]) : C{};
    const int64_t target = y_row + place * plan.y_stride;
    E sum{};
    if (place >= 0) sum = y[target];
    bool is_first = place >= 0;  // of the lanes with this place
    const int count = int(min(int64_t(warp_threads), plan.length - first));
    for (int k = 0; k < count; ++k) {
      const int64_t other = __shfl_sync(full_warp, place, k);
      const C theirs = __shfl_sync(full_warp, value, k);
      if (other != place) continue;
      if (k < lane) is_first = false;
      sum = add(sum, theirs);
    }
    __syncwarp();  // all have read before one writes
    if (is_first) y[target] = sum;
    __syncwarp();  // the next 32 read what was written
  }
}

template <class U>
__global__ void __launch_bounds__(block_threads)
    scatter_kernel(const U* x, IndexList index, U* y, ScatterPlan plan) {
  const int64_t row = this_thread() / warp_threads;
  const int lane = int(threadIdx.x) % warp_threads;
  if (row >= plan.rows) return;  // a warp leaves as one
  const auto [x_row, index_row, y_row] = offsets_of<3>(row, plan.leading, plan.strides);
  for (int64_t first = 0; first < plan.length; first += warp_threads) {
    const int64_t i = first + lane;
    const int64_t place = plan.place(index, row, index_row, i);
    bool is_last = place >= 0;  // of the lanes with this place
    const int count = int(min(int64_t(warp_threads), plan.length - first));
    for (int k = 0; k < count; ++k) {
      const int64_t other = __shfl_sync(full_warp, place, k);
      if (k > lane && other == place) is_last = false;
    }
    if (is_last) y[y_row + place * plan.y_stride] = x[x_row + i * plan.x_stride];
    __syncwarp();  // the next 32 write after these
  }
}

ScatterPlan scatter_plan(const TensorView& x, const TensorView& index, const TensorView& y) {
  const int last = x.rank() - 1;
  std::array<TensorView, 3> views = {select(x, last, 0), select(index, last, 0), y};
  views[2].shape = views[1].shape;
  views[2].strides = {};
  for (int dim = 0; dim < last; ++dim) views[2].strides.push_back(y.strides[dim]);
  const int64_t rows = views[0].numel();
  collapse(views);
  return {device_shape(views[0]),
          {device_strides(views[0]), device_strides(views[1]), device_strides(views[2])},
          rows,
          x.shape.back(),
          x.stride(-1),
          index.stride(-1),
          y.stride(-1)};
}

void scatter_add_cuda(const Stream& stream, const TensorView& x, const TensorView& index,
                      const TensorView& y) {
  check_index_views("scatter_add", y, index, x);
  if (x.numel() == 0) return;
  const ScatterPlan plan = scatter_plan(x, index, y);
  const IndexList list = index_list(stream, index, y.shape.back(), bad_scatter_add);
  dispatch_all(x.dtype, [&]<class T>() {
    simt::launch({.name = "scatter_add",
                  .grid = blocks_for("scatter_add", plan.rows * warp_threads),
                  .block = block_threads,
                  .stream = stream},
                 scatter_add_kernel<Element<T>>, data_of<T>(x), list, data_of<T>(y), plan);
  });
}

void scatter_cuda(const Stream& stream, const TensorView& x, const TensorView& index, const TensorView& y) {
  check_index_views("scatter", y, index, x);
  if (x.numel() == 0) return;
  const ScatterPlan plan = scatter_plan(x, index, y);
  const IndexList list = index_list(stream, index, y.shape.back(), bad_scatter);
  by_size(y.dtype, [&]<class U>(U) {
    simt::launch({.name = "scatter",
                  .grid = blocks_for("scatter", plan.rows * warp_threads),
                  .block = block_threads,
                  .stream = stream},
                 scatter_kernel<U>, static_cast<const U*>(x.data), list, static_cast<U*>(y.data), plan);
  });
}

template <class E>
__global__ void __launch_bounds__(block_threads)
    one_hot_kernel(IndexList index, DeviceShape rows, DeviceStrides index_strides, E* y, DeviceShape shape,
                   DeviceStrides y_strides, int64_t count) {
  const int64_t i = this_thread();
  if (i >= count) return;
  const int64_t row = i / index.limit, column = i - row * index.limit;
  const int64_t hot = index.at(offset_of(row, rows, index_strides));
  y[offset_of(i, shape, y_strides)] = from<E>(int64_t(hot == column));
  if (column == 0) index.accepts(hot, row);
}

void one_hot_cuda(const Stream& stream, const TensorView& index, const TensorView& y) {
  check_one_hot(index, y);
  const int64_t count = y.numel();
  if (count == 0) return;
  TensorView rows = index, codes = y;
  collapse({&rows, 1});
  collapse({&codes, 1});
  const IndexList list = index_list(stream, index, y.shape.back(), bad_one_hot);
  dispatch_all(y.dtype, [&]<class T>() {
    simt::launch(
        {.name = "one_hot", .grid = blocks_for("one_hot", count), .block = block_threads, .stream = stream},
        one_hot_kernel<Element<T>>, list, device_shape(rows), device_strides(rows), data_of<T>(y),
        device_shape(codes), device_strides(codes), count);
  });
}

template <class E>
__global__ void __launch_bounds__(block_threads)
    arange_kernel(E* y, DeviceShape shape, DeviceStrides strides, int64_t count) {
  const int64_t i = this_thread();
  if (i < count) y[offset_of(i, shape, strides)] = from<E>(i);
}

void arange_cuda(const Stream& stream, const TensorView& y) {
  const int64_t count = y.numel();
  if (count == 0) return;
  TensorView view = y;
  collapse({&view, 1});
  dispatch_all(y.dtype, [&]<class T>() {
    simt::launch(
        {.name = "arange", .grid = blocks_for("arange", count), .block = block_threads, .stream = stream},
        arange_kernel<Element<T>>, data_of<T>(y), device_shape(view), device_strides(view), count);
  });
}

const OnCuda gather_on_cuda{gather, gather_cuda};
const OnCuda scatter_add_on_cuda{scatter_add, scatter_add_cuda};
const OnCuda scatter_on_cuda{scatter, scatter_cuda};
const OnCuda one_hot_on_cuda{one_hot, one_hot_cuda};
const OnCuda arange_on_cuda{arange, arange_cuda};

}  // namespace
}  // namespace reprise::kernels
