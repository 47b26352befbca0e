// argsort on CUDA: stable radix sorts of all elements (stable_sort.cuh), from the lowest digits: by the words of the numbers,
// then by the rows. A number's key is its bits in the order of numbers: of negative ones all are turned round, of others the
// sign alone. A sort by a word takes four passes, whose items come to lie in the first half of the workspace; the next sort reads
// them in its first pass, which writes to the second half. So one workspace is enough.
//
// Bytes: 4 or 8 passes over keys of 8 bytes, and one or more over rows: about 300 bytes per element of 32 bits.
#include <bit>

#include "reprise/kernels/cuda/strided.cuh"
#include "reprise/kernels/index/argsort.h"
#include "reprise/kernels/index/stable_sort.cuh"
#include "reprise/kernels/strided.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

constexpr int block_threads = 256;

__device__ __forceinline__ uint32_t ordered_bits(float x) {
  if (x != x) return ~0u;
  const auto bits = std::bit_cast<uint32_t>(x == 0 ? 0.0f : x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ uint64_t ordered_bits(double x) {
  if (x != x) return ~uint64_t(0);
  const auto bits = std::bit_cast<uint64_t>(x == 0 ? 0.0 : x);
  return bits >> 63 ? ~bits : bits | uint64_t(1) << 63;
}
__device__ __forceinline__ uint64_t ordered_bits(int64_t x) { return uint64_t(x) ^ uint64_t(1) << 63; }

/// The elements of x, and the bits that they are sorted by.
template <class E>
struct Numbers {
  const E* x;
  DeviceShape shape;
  DeviceStrides strides;
  bool descending;

  __device__ auto key(uint32_t place) const {
    const auto bits = ordered_bits(to<ComputeType<E>>(x[offset_of(place, shape, strides)]));
    return descending ? ~bits : bits;
  }
};

/// By the low word of each number, in the order of memory.
template <class E>
struct ByLowWord {
  Numbers<E> numbers;
  __device__ Keyed operator()(int64_t i) const { return {uint32_t(numbers.key(uint32_t(i))), uint32_t(i)}; }
};

/// By the high word, in the order of an earlier sort.
template <class E>
struct ByHighWord {
  Numbers<E> numbers;
  const Keyed* items;
  __device__ Keyed operator()(int64_t i) const {
    const uint32_t place = items[i].position;
    return {uint32_t(numbers.key(place) >> 32), place};
  }
};

struct ByRow {
  const Keyed* items;
  uint32_t length;
  __device__ Keyed operator()(int64_t i) const {
    const uint32_t place = items[i].position;
    return {place / length, place};
  }
};

__global__ void __launch_bounds__(block_threads)
    places_kernel(const Keyed* items, uint32_t length, int64_t* y, DeviceShape shape, DeviceStrides strides,
                  int64_t count) {
  const int64_t i = int64_t(blockIdx.x) * block_threads + threadIdx.x;
  if (i < count) y[offset_of(i, shape, strides)] = items[i].position % length;
}

void argsort_cuda(const Stream& stream, const TensorView& x, bool descending, const TensorView& y) {
  check_argsort(x, y);
  const int64_t count = x.numel(), rows = count == 0 ? 0 : count / x.shape.back();
  if (count == 0) return;
  check(count < int64_t(1) << 32, "argsort: ", x.shape, " has 2^32 elements or more");
  const auto length = uint32_t(x.shape.back());
  TensorView from_view = x, to_view = y;
  collapse({&from_view, 1});
  collapse({&to_view, 1});
  const Workspace space(stream, stable_sort_bytes(count));
  const Keyed* items = nullptr;
  dispatch_all(x.dtype, [&]<class T>() {
    using E = Element<T>;
    const Numbers<E> numbers{data_of<T>(x), device_shape(from_view), device_strides(from_view), descending};
    items = stable_sort(stream, ByLowWord<E>{numbers}, count, ~0u, space);
    if constexpr (sizeof(ComputeType<E>) == 8)
      items = stable_sort(stream, ByHighWord<E>{numbers, items}, count, ~0u, space);
  });
  if (rows > 1) items = stable_sort(stream, ByRow{items, length}, count, uint32_t(rows - 1), space);
  simt::launch({.name = "argsort",
                .grid = grid_of("argsort", ceil_div<int64_t>(count, block_threads)),
                .block = block_threads,
                .stream = stream},
               places_kernel, items, length, y.as<int64_t>(), device_shape(to_view), device_strides(to_view),
               count);
}

const OnCuda argsort_on_cuda{argsort, argsort_cuda};

}  // namespace
}  // namespace reprise::kernels
