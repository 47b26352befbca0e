// Kernels that work row by row over the last dimension. A team of threads, a warp or a block, shares a row;
// a thread works on packs of N columns, thread t on the packs t, t + threads, t + 2 threads, ... A row of
// K packs per thread is kept in registers; with K = 0 it may have any length and is read again for each pass,
// from the cache as a rule. Note [Own columns] In every pass a thread reads and writes the same columns, so a
// result may lie over an input without a barrier between the passes. Note [Shifted rows] A row that starts
// behind a 16-byte boundary may be worked on from that boundary on: its first columns, and those behind its
// end, belong to other rows, and are masked in the first pack and the last.
#pragma once

#include <algorithm>
#include <limits>

#include "reprise/kernels/cuda/cuts.h"
#include "reprise/kernels/cuda/reduce.cuh"
#include "reprise/kernels/cuda/row_address.cuh"
#include "reprise/kernels/row_checks.h"

namespace reprise::kernels::device {

/// A warp for each row, so a block of several warps has several rows under way.
template <class C>
struct WarpTeam {
  static constexpr int max_block = 128;
  static constexpr bool is_warp = true;

  __device__ explicit WarpTeam(C*) {}
  __device__ int thread() const { return int(threadIdx.x) % warp_threads; }
  __device__ int threads() const { return warp_threads; }
  __device__ int64_t first_row() const { return int64_t(blockIdx.x) * teams() + index(); }
  __device__ int64_t row_step() const { return int64_t(gridDim.x) * teams(); }
  __device__ int index() const { return int(threadIdx.x) / warp_threads; }  ///< of the team in its block
  __device__ int teams() const { return int(blockDim.x) / warp_threads; }   ///< in a block

  /// `op` over the team of each of M values, in every thread.
  template <class Op, int M>
  __device__ void reduce(Op op, C (&values)[M], C) const {
#pragma unroll
    for (int m = 0; m < M; ++m) values[m] = warp_reduce(op, values[m]);
  }
};

/// A block for each row. `scratch` holds 2 * 32 numbers in shared memory.
template <class C>
struct BlockTeam {
  static constexpr bool is_warp = false;
  C* scratch;

  __device__ explicit BlockTeam(C* shared) : scratch(shared) {}
  __device__ int thread() const { return int(threadIdx.x); }
  __device__ int threads() const { return int(blockDim.x); }
  __device__ int64_t first_row() const { return int64_t(blockIdx.x); }
  __device__ int64_t row_step() const { return int64_t(gridDim.x); }
  __device__ int index() const { return 0; }
  __device__ int teams() const { return 1; }

  template <class Op, int M>
  __device__ void reduce(Op op, C (&values)[M], C neutral) const {
    static_assert(M <= 2, "more values than scratch holds");
    const int lane = thread() % warp_threads, warp = thread() / warp_threads;
    const int warps = threads() / warp_threads;
#pragma unroll
    for (int m = 0; m < M; ++m) {
      values[m] = warp_reduce(op, values[m]);
      if (lane == 0) scratch[m * warp_threads + warp] = values[m];
    }
    __syncthreads();
#pragma unroll
    for (int m = 0; m < M; ++m) values[m] = lane < warps ? scratch[m * warp_threads + lane] : neutral;
    __syncthreads();  // scratch may be written again
#pragma unroll
    for (int m = 0; m < M; ++m) values[m] = warp_reduce(op, values[m]);
  }
};

/// How a row is cut: into packs of N columns, K a thread in registers or 0; see Note [Shifted rows].
template <class C_, template <class> class Team_, int N_, int K_, int max_block_, bool shifted_ = false>
struct RowCut {
  using C = C_;
  using Team = Team_<C_>;
  static constexpr int N = N_, K = K_;
  static constexpr bool shifted = shifted_;
  static constexpr int max_block = max_block_;  ///< threads
  /// Blocks that fit a multiprocessor together, for kernels that can do with so many registers.
  static constexpr int min_blocks = Team::is_warp ? 4 : shifted ? 3 : max_block == 1024 ? 2 : 1;
};

inline constexpr int64_t max_short_row = (int64_t{1} << 31) - 1;  ///< columns that an int can count

/// Calls body(k, j) for each pack of this thread: its number and its first column.
template <class Cut, class Body>
__device__ __forceinline__ void each_pack(const typename Cut::Team& team, int64_t width, Body&& body) {
  if constexpr (Cut::K > 0) {
#pragma unroll
    for (int k = 0; k < Cut::K; ++k) {
      const int j = (k * team.threads() + team.thread()) * Cut::N;
      if (j < int(width)) body(k, int64_t(j));
    }
  } else {
    const int64_t step = int64_t(team.threads()) * Cut::N;
    for (int64_t j = int64_t(team.thread()) * Cut::N; j < width; j += step) body(0, j);
  }
}

/// The same packs, last first: what the pass before has read last is the likeliest to be in the cache.
template <class Cut, class Body>
__device__ __forceinline__ void each_pack_backwards(const typename Cut::Team& team, int64_t width,
                                                    Body&& body) {
  if (Cut::K > 0 || width > max_short_row) {  // longer ones fit no cache
    each_pack<Cut>(team, width, body);
  } else {
    const int first = team.thread() * Cut::N, step = team.threads() * Cut::N;
    if (first >= int(width)) return;
    for (int j = first + (int(width) - 1 - first) / step * step; j >= 0; j -= step) body(0, int64_t(j));
  }
}

/// N numbers in the type that arithmetic is done in.
template <class C, int N>
struct Numbers {
  C at[N];
};

template <class C, class T, int N>
__device__ __forceinline__ Numbers<C, N> numbers_of(const Pack<T, N>& pack) {
  Numbers<C, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result.at[i] = to<C>(pack.at[i]);
  return result;
}

/// The numbers, rounded to T.
template <class T, class C, int N>
__device__ __forceinline__ Pack<Kept<T>, N> pack_of(const Numbers<C, N>& numbers) {
  Pack<Kept<T>, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result.at[i] = from<Kept<T>>(numbers.at[i]);
  return result;
}

/// Columns between the 16-byte boundary before a row and the row.
template <class Cut, class T>
__device__ __forceinline__ int shift_of(const T* row) {
  if constexpr (!Cut::shifted) return 0;
  return int(reinterpret_cast<uintptr_t>(row) % 16 / sizeof(T));
}

/// One thread's part of a row of columns [begin, end) of `data`; begin is 0 but for shifted rows.
template <class T, class Cut>
class Row {
 public:
  static constexpr int N = Cut::N;

  __device__ Row(const typename Cut::Team& team, Pointer<const T> data, int64_t end, int begin = 0)
      : data_(data), begin_(begin), end_(end) {
    if constexpr (Cut::K > 0)
      each_pack<Cut>(team, end, [&](int k, int64_t j) { packs_[k] = load_pack<N>(data + j); });
  }
  /// The pack k that starts at column j; -inf where a pack of a shifted row has columns of others.
  __device__ Numbers<typename Cut::C, N> operator()(int k, int64_t j) const {
    using C = typename Cut::C;
    if constexpr (Cut::K > 0) return numbers_of<C>(packs_[k]);
    if (holds(j)) return numbers_of<C>(load_pack<N>(data_ + j));
    Numbers<C, N> result;
#pragma unroll
    for (int i = 0; i < N; ++i)
      result.at[i] = holds(j, i) ? to<C>(data_[j + i]) : -std::numeric_limits<C>::infinity();
    return result;
  }
  /// Whether column j + i, or the whole pack, is in the row.
  __device__ bool holds(int64_t j, int i) const { return !Cut::shifted || (j + i >= begin_ && j + i < end_); }
  __device__ bool holds(int64_t j) const { return !Cut::shifted || (j >= begin_ && j + N <= end_); }

  /// Writes a pack to the same columns of another row.
  __device__ void store(T* into, int64_t j, const Pack<T, N>& pack) const {
    if (holds(j)) return store_pack(into + j, pack);
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (holds(j, i)) into[j + i] = pack.at[i];
  }
  /// Replaces a pack; for rows that are not kept, read_from says where all have been replaced.
  __device__ void set(int k, const Pack<Kept<T>, N>& pack) {
    if constexpr (Cut::K > 0) packs_[k] = pack;
  }
  __device__ void read_from(Pointer<const T> data) { data_ = data; }

 private:
  Pointer<const T> data_;
  int begin_;
  int64_t end_;
  Pack<Kept<T>, N> packs_[std::max(Cut::K, 1)] = {};
};

/// a b + c, rounded once. Where a compiler may choose between that and two roundings, it chooses anew for each
/// instantiation, and rows of several dtypes would not have the bits of f32.
__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return fma(a, b, c); }

/// Calls body.operator()<T>() with the element type of rows, AnyFloat if they have several.
template <class Body>
void dispatch_row_type(const char* op, std::span<const TensorView* const> views, Body&& body) {
  if (have_several_dtypes(views)) return body.template operator()<AnyFloat>();
  dispatch_floating(views.front()->dtype, op, body);
}

/// The grid and block of a launch over rows.
struct RowGrid {
  dim3 grid, block;
};

/// Calls body.operator()<RowCut>(RowGrid) with the cut for `rows` of `width` elements of type T, whose packs
/// fit all views as `fit` says. `columns` is what a thread of a block keeps in registers; kernels that take
/// wide shifted rows say so.
template <class T, int columns, bool takes_shifted = false, class Body>
void dispatch_rows(int64_t rows, int64_t width, Fit fit, Body&& body) {
  using C = Accumulator<T>;
  auto warps = [&]<int N, int K>() {
    constexpr int block = WarpTeam<C>::max_block, teams = block / warp_threads;
    body.template operator()<RowCut<C, WarpTeam, N, K, block>>(
        RowGrid{unsigned(std::min(ceil_div(rows, int64_t(teams)), kRowBlocks)), block});
  };
  auto blocks = [&]<int N, int K, int max_block, bool shifted = false>(int64_t columns_each) {
    int64_t threads = ceil_div(ceil_div(width, columns_each), int64_t(warp_threads)) * warp_threads;
    body.template operator()<RowCut<C, BlockTeam, N, K, max_block, shifted>>(
        RowGrid{unsigned(std::min(rows, kRowBlocks)), unsigned(std::min<int64_t>(threads, max_block))});
  };
  if constexpr (sizeof(T) <= 4) {
    constexpr int N = pack_size<T>;
    if (fit == Fit::whole) {
      if (width <= kWarpRows[0]) return warps.template operator()<N, 8 / N>();
      if (width <= kWarpRows[1]) return warps.template operator()<N, 16 / N>();
      if (width <= kWarpRows[2]) return warps.template operator()<N, 24 / N>();
      if (width <= kWidestWarpRow) return warps.template operator()<N, 32 / N>();
      if (width <= kRowThreads * columns)
        return blocks.template operator()<N, columns / N, kRowThreads>(columns);
      return blocks.template operator()<N, 0, 1024>(columns);
    }
    if constexpr (takes_shifted)
      if (fit == Fit::shifted && width > kWidestWarpRow)
        return blocks.template operator()<N, 0, kRowThreads, true>(columns);
  }
  if (width <= kWidestWarpRow) return warps.template operator()<1, 0>();
  blocks.template operator()<1, 0, kRowThreads>(8);
}

}  // namespace reprise::kernels::device
