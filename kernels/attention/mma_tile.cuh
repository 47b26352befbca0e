// Tiles of rows of a head in shared memory, 16-bit elements, as ldmatrix reads them.
//
// Note [Swizzle] A row is `width` elements, cut into chunks of 16 bytes. ldmatrix reads eight rows at one
// column of chunks; in a plain layout these lie a multiple of 64 bytes apart, in one or two of the eight
// groups of four banks. So row r keeps chunk c at place c ^ f(r): f is r mod 8 where a row fills whole lines
// of 128 bytes, and r / 2 mod 4 where it ends in half a line, as odd rows then start in the other half. Any
// eight rows from a multiple of eight on use all banks once.
#pragma once

#include "reprise/kernels/attention/heads.cuh"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/simt/ptx.h"

namespace reprise::kernels::device {

inline constexpr int chunk_size = 8;  // elements

template <class T, int width_>
struct SharedTile {
  static constexpr int width = width_, chunks = width / chunk_size;
  static_assert(sizeof(T) == 2 && chunks % 4 == 0);
  static constexpr int group = chunks % 8 == 0 ? 8 : 4;  // chunks that trade places
  T* data;

  /// The chunk's 16 bytes. `row` counts from a multiple of eight.
  __device__ T* at(int row, int chunk) const {
    const int flip = group == 8 ? row % 8 : row / 2 % 4;
    return data + row * width + (chunk / group * group + (chunk % group ^ flip)) * chunk_size;
  }
  /// The tile from `row`, a multiple of eight, on.
  __device__ SharedTile from_row(int row) const { return {data + row * width}; }
};

/// How rows move between global and shared memory: by 16 bytes if `by_chunks`, which needs addresses that are
/// multiples of 16, else by elements.
struct RowAccess {
  int head_dim;
  bool by_chunks;
};

/// All threads of the block start to fill `rows` rows of the tile from rows `first` on of `from`, which has
/// `end` rows; what lies beyond and the columns from head_dim to width become zero. The tile is there after
/// cp_async_wait and a barrier.
template <int rows, int threads, class T, int width>
__device__ __forceinline__ void load_rows(SharedTile<T, width> tile, HeadRows<const T> from, int first,
                                          int end, RowAccess access) {
  const T* start = from[first];
  if (!access.by_chunks) {
#pragma unroll 1
    for (int index = int(threadIdx.x); index < rows * width; index += threads) {
      const int row = index / width, column = index % width;
      const bool valid = first + row < end && column < access.head_dim;
      tile.at(row, column / chunk_size)[column % chunk_size] =
          valid ? start[int64_t(row) * from.stride + column] : device::from<T>(0.0f);
    }
    return;
  }
  // A thread's rows lie a multiple of eight apart and its chunks a multiple of what swizzling moves, so that
  // its places in the tile differ by constants.
  constexpr int chunks = SharedTile<T, width>::chunks, lanes = SharedTile<T, width>::group,
                step = threads / lanes;
  static_assert(threads % lanes == 0 && step % 8 == 0 && rows % step == 0);
  const int row = int(threadIdx.x) / lanes, chunk = int(threadIdx.x) % lanes;
  const T* source = start + int64_t(row) * from.stride + chunk * chunk_size;
  T* target = tile.at(row, chunk);
#pragma unroll
  for (int i = 0; i < rows / step; ++i) {
#pragma unroll
    for (int j = 0; j < chunks; j += lanes) {
      const bool valid = first + row + i * step < end && (chunk + j) * chunk_size < access.head_dim;
      simt::ptx::cp_async16(target + i * step * width + j * chunk_size, source + j * chunk_size, valid);
    }
    source += int64_t(step) * from.stride;
  }
}

/// Tiles of two views that are needed together, K and V or Q and dO: one pair is multiplied while the next is
/// on its way.
template <class T, int width, int rows, int threads>
struct PairedTiles {
  SharedTile<T, width> memory;  // 4 tiles

  __device__ SharedTile<T, width> first(int i) const { return memory.from_row(i % 2 * 2 * rows); }
  __device__ SharedTile<T, width> second(int i) const { return memory.from_row((i % 2 * 2 + 1) * rows); }
  /// Pair i: rows `row` on of both.
  __device__ __forceinline__ void load(int i, HeadRows<const T> one, HeadRows<const T> other, int row,
                                       int end, RowAccess access) const {
    load_rows<rows, threads>(first(i), one, row, end, access);
    load_rows<rows, threads>(second(i), other, row, end, access);
    simt::ptx::cp_async_commit();
  }
};

/// A warp writes `rows` rows of the tile to rows `first` on of `to`, which has `end` rows.
template <int rows, class T, int width>
__device__ __forceinline__ void store_rows(SharedTile<T, width> tile, HeadRows<T> to, int first, int end,
                                           RowAccess access) {
  constexpr int chunks = SharedTile<T, width>::chunks;
  for (int index = int(threadIdx.x) % 32; index < rows * chunks; index += 32) {
    const int row = index / chunks, chunk = index % chunks;
    const int rest = first + row < end ? access.head_dim - chunk * chunk_size : 0;
    if (rest <= 0) continue;
    const auto pack = load_pack<chunk_size>(tile.at(row, chunk));
    T* target = to[first + row] + chunk * chunk_size;
    if (access.by_chunks) {
      store_pack(target, pack);
    } else {
      for (int e = 0; e < chunk_size && e < rest; ++e) target[e] = pack.at[e];
    }
  }
}

}  // namespace reprise::kernels::device
