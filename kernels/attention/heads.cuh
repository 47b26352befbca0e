// Heads of (B, H, T, D) views in device code, and which of them a block works on.
#pragma once

#include "reprise/kernels/attention/problem.h"
#include "reprise/kernels/cuda/types.cuh"

namespace reprise::kernels::device {

using attention_detail::Problem;

inline constexpr double log2_e = 1.4426950408889634, ln_2 = 0.6931471805599453;

/// The rows of one head, `stride` elements apart; in 32 bits, as registers are scarce.
template <class T>
struct HeadRows {
  T* data;
  int stride;
  __device__ T* operator[](int row) const { return data + int64_t(row) * stride; }
};

/// A view of (B, H, T, D) with stride 1 in D.
template <class T>
struct Heads {
  T* data;
  int64_t batch_stride, head_stride;
  int row_stride;
  __device__ HeadRows<T> at(int64_t b, int64_t h) const {
    return {data + b * batch_stride + h * head_stride, row_stride};
  }
};

/// A view of T by its host name. Error if its rows lie too far apart.
template <class T>
Heads<Element<T>> heads_of(const TensorView& view) {
  const int64_t row_stride = view.size(2) > 1 ? view.stride(2) : 0;
  check(row_stride == int32_t(row_stride), "attention: rows lie more than 2^31 elements apart: strides ",
        view.strides);
  return {data_of<T>(view), view.stride(0), view.stride(1), int(row_stride)};
}
/// The same, to be read only.
template <class T>
Heads<const Element<T>> const_heads_of(const TensorView& view) {
  const auto heads = heads_of<T>(view);
  return {heads.data, heads.batch_stride, heads.head_stride, heads.row_stride};
}

/// Blocks are numbered head by head. The tile of rows of one head that block `index` works on; the last tile,
/// whose queries see the most keys, comes first.
struct HeadTile {
  int b, h, tile;
};
__device__ __forceinline__ HeadTile head_tile_of(unsigned index, int tiles, int heads) {
  const int head = int(index / unsigned(tiles));
  return {head / heads, head % heads, tiles - 1 - int(index % unsigned(tiles))};
}

/// `count` queries of a head from `first` on, as far as there are, and the keys they see.
struct QueryRange {
  int first, end;
  int all_see;   ///< keys that each of them sees
  int some_see;  ///< keys that the last one sees; 0 if there are no queries

  __device__ QueryRange(const Problem& problem, int first_query, int count)
      : first(first_query), end(min(first_query + count, int(problem.queries))) {
    all_see = first < end ? int(problem.visible_keys(first)) : 0;
    some_see = first < end ? int(problem.visible_keys(end - 1)) : 0;
  }
};

}  // namespace reprise::kernels::device
