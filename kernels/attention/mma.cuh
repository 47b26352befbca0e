// The two matrix products of attention by tensor cores, for one warp. Scores lie in registers as f32 C
// fragments (Note [Fragments] in simt/ptx.h): float s[M][N][4] is a tile of 16 M rows and 8 N columns.
// Rounded by pairs they are the A operand of the next product, so probabilities never leave the registers.
#pragma once

#include <cstring>

#include "reprise/kernels/attention/mask.cuh"
#include "reprise/kernels/attention/mma_tile.cuh"

namespace reprise::kernels::device {

/// Row and column of element e of this lane's C fragment.
__device__ __forceinline__ int fragment_row(int e) { return int(threadIdx.x) % 32 / 4 + e / 2 * 8; }
__device__ __forceinline__ int fragment_column(int e) { return int(threadIdx.x) % 4 * 2 + e % 2; }

/// Calls body(m, n, e, row, column) for the elements of this lane in a tile of 16 M x 8 N.
template <int M, int N, class Body>
__device__ __forceinline__ void each_element(Body&& body) {
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) body(m, n, e, m * 16 + fragment_row(e), n * 8 + fragment_column(e));
}

template <int M, int N>
__device__ __forceinline__ void set_zero(float (&c)[M][N][4]) {
  each_element<M, N>([&](int m, int n, int e, int, int) { c[m][n][e] = 0; });
}

/// Calls hide(m, n, e) for the elements whose key their query does not see. Rows are queries from
/// `first_query` on, columns keys from `first_key` on.
template <int M, int N, class Hide>
__device__ __forceinline__ void each_hidden_key(const Problem& problem, int first_query, int first_key,
                                                Hide&& hide) {
  const int keys = int(problem.keys), shift = int(problem.keys - problem.queries);
  each_element<M, N>([&](int m, int n, int e, int row, int column) {
    const int end = problem.causal ? min(keys, first_query + row + shift + 1) : keys;
    if (first_key + column >= end) hide(m, n, e);
  });
}

/// What a kernel is compiled for beyond plain attention, whose registers it would take; with a mask it drops too if asked.
enum class Extra { none, dropout, mask };

/// Bit 4 n + e: whether the query of element e of fragment n sees its key, by the mask too. Rows are queries and columns
/// keys, or the other way round.
template <int N, bool rows_are_keys, class T>
__device__ __forceinline__ unsigned seen_keys(const HeadMask<T, float>& mask, const Problem& problem,
                                              int first_query, int first_key) {
  static_assert(N <= 8);
  unsigned bits = 0;
#pragma unroll 1
  for (int n = 0; n < N; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int row = fragment_row(e), column = n * 8 + fragment_column(e);
      const int query = first_query + (rows_are_keys ? column : row),
                key = first_key + (rows_are_keys ? row : column);
      const bool exists = query < int(problem.queries) && key < int(problem.visible_keys(query));
      if (exists && !(mask.added(query, key) == -INFINITY)) bits |= 1u << (4 * n + e);
    }
  return bits;
}

/// Scales scores, in base 2, and adds the mask to those whose bit of `seen` is set; the others become -inf.
template <int N, bool rows_are_keys, class T>
__device__ __forceinline__ void add_mask(const HeadMask<T, float>& mask, unsigned seen, int first_query,
                                         int first_key, float scale, float (&s)[1][N][4]) {
  const bool adds = mask.kind != MaskKind::boolean;
  each_element<1, N>([&](int m, int n, int e, int row, int column) {
    const int query = first_query + (rows_are_keys ? column : row),
              key = first_key + (rows_are_keys ? row : column);
    if (!(seen >> (4 * n + e) & 1u))
      s[m][n][e] = -INFINITY;
    else
      s[m][n][e] = fmaf(s[m][n][e], scale, adds ? mask.added(query, key) * float(log2_e) : 0.0f);
  });
}

/// Two numbers rounded to T, the first in the low half.
template <class T>
__device__ __forceinline__ uint32_t packed(float low, float high) {
  uint32_t bits;
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    std::memcpy(&bits, &pair, sizeof bits);
  } else {
    const __half2 pair = __floats2half2_rn(low, high);
    std::memcpy(&bits, &pair, sizeof bits);
  }
  return bits;
}

/// The A operand that lies at rows 16 m and columns 16 k of a tile.
template <class T, int width>
__device__ __forceinline__ void load_left(SharedTile<T, width> tile, int m, int k, uint32_t (&a)[4]) {
  const int lane = int(threadIdx.x) % 32;
  simt::ptx::ldmatrix_x4(a, tile.at(m * 16 + lane % 16, 2 * k + lane / 16));
}

/// A warp's own 16 M rows as A operands: kept in registers, or loaded for each use.
template <class T, int width, int M, bool in_registers>
class OwnRows {
 public:
  /// Once the tile is there, from the warp's first row on.
  __device__ void take(SharedTile<T, width> tile) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int k = 0; k < width / 16; ++k) load_left(tile, m, k, rows_[m][k]);
  }
  __device__ void load(int m, int k, uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) a[i] = rows_[m][k][i];
  }

 private:
  uint32_t rows_[M][width / 16][4];
};
template <class T, int width, int M>
class OwnRows<T, width, M, false> {
 public:
  __device__ void take(SharedTile<T, width> tile) { tile_ = tile; }
  __device__ void load(int m, int k, uint32_t (&a)[4]) const { load_left(tile_, m, k, a); }

 private:
  SharedTile<T, width> tile_;
};

/// s = A B^T. The 8 N rows of B are the first of a tile.
template <int M, int N, class T, int width, bool in_registers>
__device__ __forceinline__ void multiply_rows_by_rows(const OwnRows<T, width, M, in_registers>& a,
                                                      SharedTile<T, width> b, float (&s)[M][N][4]) {
  const int lane = int(threadIdx.x) % 32;
  set_zero(s);
#pragma unroll(in_registers ? width / 16 \
               : width > 96 ? 4          \
                            : 2)  // addresses of further steps would take registers
  for (int k = 0; k < width / 16; ++k) {
    uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) a.load(m, k, left[m]);
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      uint32_t right[4];
      simt::ptx::ldmatrix_x4(right, b.at(n * 8 + lane % 8 + lane / 16 * 8, 2 * k + lane / 8 % 2));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        simt::ptx::mma_m16n8k16<T>(s[m][n], left[m], right[0], right[1]);
        simt::ptx::mma_m16n8k16<T>(s[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

/// sum += P B, with P rounded to T: the 8 N rows of B are the first of a tile.
template <int M, int N, class T, int width>
__device__ __forceinline__ void add_product(const float (&p)[M][N][4], SharedTile<T, width> b,
                                            float (&sum)[M][width / 8][4]) {
  const int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    uint32_t left[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&c)[4] = p[m][2 * k + i / 2];
        left[m][i] = packed<T>(c[i % 2 * 2], c[i % 2 * 2 + 1]);
      }
#pragma unroll
    for (int n = 0; n < width / 8; n += 2) {
      uint32_t right[4];
      simt::ptx::ldmatrix_x4_trans(right, b.at(k * 16 + lane % 16, n + lane / 16));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        simt::ptx::mma_m16n8k16<T>(sum[m][n], left[m], right[0], right[1]);
        simt::ptx::mma_m16n8k16<T>(sum[m][n + 1], left[m], right[2], right[3]);
      }
    }
  }
}

/// Writes the warp's sums, row by row times `factor(m, e / 2)`, to rows `first` on of `to`. They pass through
/// the warp's own rows of a tile, which no other warp uses, so that global memory is written in whole chunks.
template <int M, class T, int width, class Factor>
__device__ __forceinline__ void write_sums(const float (&sum)[M][width / 8][4], SharedTile<T, width> own,
                                           HeadRows<T> to, int first, int end, RowAccess access,
                                           Factor&& factor) {
  __syncwarp();
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < width / 8; ++n)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float f = factor(m, r);
        const Pack<T, 2> pair{from<T>(sum[m][n][2 * r] * f), from<T>(sum[m][n][2 * r + 1] * f)};
        store_pack(own.at(m * 16 + fragment_row(2 * r), n) + fragment_column(0), pair);
      }
  __syncwarp();
  store_rows<16 * M>(own, to, first, end, access);
}

}  // namespace reprise::kernels::device
