// A stable sort of positions by small keys: a radix sort by bytes, from the lowest. A pass counts the digits
// of each tile of the input, then moves every item to its place: behind the smaller digits of all tiles, the
// same digit of earlier tiles, and of earlier items of its own tile. Shared counters are integers, so the
// order in which threads add to them changes nothing.
//
// Bytes a pass: 32 an item.  Launches: two a byte of the largest key.
#pragma once

#include <utility>

#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/types.cuh"
#include "reprise/kernels/cuda/workspace.h"

namespace reprise::kernels::device {

struct Keyed {
  uint32_t key, position;
};

namespace sorting {

inline constexpr int threads = 256, warps = threads / warp_threads, digits = 256;
inline constexpr int tile_items = kSortTile, items_of_thread = tile_items / threads;
inline constexpr int items_of_warp = items_of_thread * warp_threads;
static_assert(digits == threads, "a thread looks after one digit");

/// Items that an earlier pass wrote.
struct Buffer {
  const Keyed* data;
  __device__ Keyed operator()(int64_t i) const { return data[i]; }
};

__device__ __forceinline__ int digit_of(Keyed item, int shift) {
  return int(item.key >> shift & (digits - 1));
}

/// The first item of this thread's warp in tile blockIdx.x; a warp's items are 32 at a time, lane by lane.
__device__ __forceinline__ int64_t first_item() {
  const int warp = int(threadIdx.x) / warp_threads, lane = int(threadIdx.x) % warp_threads;
  return int64_t(blockIdx.x) * tile_items + warp * items_of_warp + lane;
}

/// counts[tile, digit]
template <class Source>
__global__ void __launch_bounds__(threads)
    count_digits_kernel(Source source, int64_t n, int shift, uint32_t* counts) {
  REPRISE_SHARED(unsigned, tile_counts, [digits]);
  tile_counts[threadIdx.x] = 0;
  __syncthreads();
  const int64_t first = first_item();
  for (int k = 0; k < items_of_thread; ++k)
    if (int64_t i = first + k * warp_threads; i < n) atomicAdd(&tile_counts[digit_of(source(i), shift)], 1u);
  __syncthreads();
  counts[int64_t(blockIdx.x) * digits + threadIdx.x] = tile_counts[threadIdx.x];
}

/// The sum of `value` over the threads before this one. `scratch` holds one number per warp.
__device__ inline uint32_t sum_before(uint32_t value, uint32_t* scratch) {
  const int warp = int(threadIdx.x) / warp_threads, lane = int(threadIdx.x) % warp_threads;
  uint32_t sum = value;
#pragma unroll
  for (int offset = 1; offset < warp_threads; offset *= 2) {
    uint32_t below = __shfl_up_sync(full_warp, sum, offset);
    if (lane >= offset) sum += below;
  }
  if (lane == warp_threads - 1) scratch[warp] = sum;
  __syncthreads();
  sum -= value;
  for (int other = 0; other < warp; ++other) sum += scratch[other];
  return sum;
}

/// The lanes among `valid` ones that have the same digit as this lane.
__device__ __forceinline__ unsigned lanes_with(int digit, bool valid) {
  unsigned same = __ballot_sync(full_warp, valid);
#pragma unroll
  for (int bit = 1; bit < digits; bit *= 2) {
    const bool is_set = digit & bit;
    const unsigned set = __ballot_sync(full_warp, is_set);
    same &= is_set ? set : ~set;
  }
  return same;
}

/// out = the items in the order of their digit; `counts` is that of all tiles.
template <class Source>
__global__ void __launch_bounds__(threads)
    move_items_kernel(Source source, int64_t n, int shift, const uint32_t* counts, Keyed* out) {
  REPRISE_SHARED(unsigned, next, [warps * digits]);  // where each warp puts its next item of a digit
  REPRISE_SHARED(uint32_t, scratch, [warps]);
  const int digit = int(threadIdx.x), lane = int(threadIdx.x) % warp_threads;
  unsigned* of_warp = next + int(threadIdx.x) / warp_threads * digits;
  for (int warp = 0; warp < warps; ++warp) next[warp * digits + digit] = 0;
  __syncthreads();
  const int64_t first = first_item();
  for (int k = 0; k < items_of_thread; ++k)
    if (int64_t i = first + k * warp_threads; i < n) atomicAdd(&of_warp[digit_of(source(i), shift)], 1u);
  uint32_t before = 0, total = 0;  // of this thread's digit: in earlier tiles, and in all
  for (unsigned tile = 0; tile < gridDim.x; ++tile) {
    const uint32_t count = counts[int64_t(tile) * digits + digit];
    if (tile < blockIdx.x) before += count;
    total += count;
  }
  uint32_t start = sum_before(total, scratch) + before;  // its barrier also completes the counts of the warps
  for (int warp = 0; warp < warps; ++warp) start += std::exchange(next[warp * digits + digit], start);
  __syncthreads();
  for (int k = 0; k < items_of_thread; ++k) {
    const int64_t i = first + k * warp_threads;
    const bool valid = i < n;
    const Keyed item = valid ? source(i) : Keyed{};
    const int d = digit_of(item, shift);
    const unsigned same = lanes_with(d, valid);
    const int rank = __popc(same & ((1u << lane) - 1));
    if (valid) out[of_warp[d] + unsigned(rank)] = item;
    __syncwarp();  // all have read their place before it moves on
    if (valid && rank == 0) of_warp[d] += unsigned(__popc(same));
    __syncwarp();
  }
}

}  // namespace sorting

/// Workspace for `stable_sort` of n items.
inline size_t stable_sort_bytes(int64_t n) {
  const size_t tiles = size_t(ceil_div<int64_t>(n, sorting::tile_items));
  return 2 * size_t(n) * sizeof(Keyed) + tiles * sorting::digits * sizeof(uint32_t);
}

/// The n items that `source(i)` gives in device code, by key; equal keys stay in the order of i. They lie in
/// `space`, of stable_sort_bytes(n). n > 0; no key is above `largest`.
template <class Source>
const Keyed* stable_sort(const Stream& stream, const Source& source, int64_t n, uint32_t largest,
                         const Workspace& space) {
  Keyed *in = space.as<Keyed>(), *out = in + n;
  auto* counts = reinterpret_cast<uint32_t*>(out + n);
  const auto tiles = unsigned(ceil_div<int64_t>(n, sorting::tile_items));
  auto pass = [&](const auto& from, int shift) {
    using From = std::decay_t<decltype(from)>;
    simt::launch({.name = "count_digits", .grid = tiles, .block = sorting::threads, .stream = stream},
                 sorting::count_digits_kernel<From>, from, n, shift, counts);
    simt::launch({.name = "move_items", .grid = tiles, .block = sorting::threads, .stream = stream},
                 sorting::move_items_kernel<From>, from, n, shift, counts, out);
    std::swap(in, out);
  };
  pass(source, 0);
  for (int shift = 8; shift < 32 && largest >> shift > 0; shift += 8) pass(sorting::Buffer{in}, shift);
  return in;
}

}  // namespace reprise::kernels::device
