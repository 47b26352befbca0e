// Matrix products of attention by plain arithmetic, for a block of 16 x 16 threads on tiles of 64 x 64:
// thread (y, x) has rows 4 y + i and columns 4 x + j, so that the 16 threads of a row are half a warp. The
// sums' operands pass through shared memory in chunks of 16 steps, converted to the type C that sums are kept
// in; step k of a chunk is a line there, so a thread reads its four rows and its four columns by one access
// each. Each element is one chain of multiply-adds in the order of the sum. Rows of any length are summed, so
// any head size will do; results come in slices of 64 columns, one to a block.
#pragma once

#include "reprise/kernels/attention/dropout.cuh"
#include "reprise/kernels/attention/mask.cuh"
#include "reprise/kernels/cuda/pack.cuh"
#include "reprise/kernels/cuda/reduce.cuh"

namespace reprise::kernels::device {

inline constexpr int simt_threads = 256, simt_tile = 64, simt_chunk = 16;
/// Elements from one line of a chunk or tile to the next: lines start at different banks.
inline constexpr int simt_line = simt_tile + 4;
/// Shared memory, in elements: the chunks of both operands; a tile.
inline constexpr int simt_chunks_size = 2 * simt_chunk * simt_line, simt_tile_size = simt_tile * simt_line;

__device__ __forceinline__ int simt_row_of(int i) { return int(threadIdx.x) / 16 * 4 + i; }
__device__ __forceinline__ int simt_column_of(int j) { return int(threadIdx.x) % 16 * 4 + j; }

/// Rows [first, end) of a head of `head_dim` columns.
template <class T>
struct SimtRows {
  HeadRows<const T> rows;
  int first, end, head_dim;
};

/// Calls body(i, j) for the 16 elements of this thread.
template <class Body>
__device__ __forceinline__ void simt_each_element(Body&& body) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) body(i, j);
}

template <class C>
__device__ __forceinline__ void simt_set_zero(C (&sum)[4][4]) {
  simt_each_element([&](int i, int j) { sum[i][j] = 0; });
}

/// Copies `n_rows` x `n_columns` elements from row `row` of `from` and column `column` on; zeros beyond its
/// end. Rows become lines of `to`, or columns do.
template <int n_rows, int n_columns, bool transposed, class C, class T>
__device__ __forceinline__ void simt_load(const SimtRows<T>& from, int row, int column, C* to) {
#pragma unroll 4
  for (int index = int(threadIdx.x); index < n_rows * n_columns; index += simt_threads) {
    const int r = index / n_columns, c = index % n_columns;
    const bool valid = from.first + row + r < from.end && column + c < from.head_dim;
    to[transposed ? c * simt_line + r : r * simt_line + c] =
        valid ? device::to<C>(from.rows[from.first + row + r][column + c]) : C(0);
  }
}

/// sum += L^T R for one chunk: line k of L holds what step k multiplies rows by, line k of R columns.
template <class C>
__device__ __forceinline__ void simt_add_chunk(const C* left, const C* right, C (&sum)[4][4]) {
#pragma unroll
  for (int k = 0; k < simt_chunk; ++k) {
    const auto rows = load_pack<4>(left + k * simt_line + simt_row_of(0));
    const auto columns = load_pack<4>(right + k * simt_line + simt_column_of(0));
    simt_each_element([&](int i, int j) { sum[i][j] += rows.at[i] * columns.at[j]; });
  }
}

/// s = A B^T of the first 64 rows of each. Its barriers come after all other threads' reads of shared memory
/// before the call, so that P may be written next.
template <class C, class T>
__device__ __forceinline__ void simt_multiply_rows(const SimtRows<T>& a, const SimtRows<T>& b, C* chunks,
                                                   C (&s)[4][4]) {
  C *left = chunks, *right = chunks + simt_chunk * simt_line;
  simt_set_zero(s);
  for (int column = 0; column < max(a.head_dim, 1); column += simt_chunk) {
    __syncthreads();  // the chunks before have been read
    simt_load<simt_tile, simt_chunk, true>(a, 0, column, left);
    simt_load<simt_tile, simt_chunk, true>(b, 0, column, right);
    __syncthreads();
    simt_add_chunk(left, right, s);
  }
}

/// sum += P B for 64 columns of B from `column` on. `p` is P^T (64, 64) in shared memory.
template <class C, class T>
__device__ __forceinline__ void simt_add_product(const C* p, const SimtRows<T>& b, int column, C* chunks,
                                                 C (&sum)[4][4]) {
  const int rows = min(simt_tile, b.end - b.first);  // the columns of P beyond are not read
#pragma unroll 1
  for (int row = 0; row < rows; row += simt_chunk) {
    __syncthreads();  // P has been written and the chunk before read
    simt_load<simt_chunk, simt_tile, false>(b, row, column, chunks);
    __syncthreads();
    simt_add_chunk(p + row * simt_line, chunks, sum);
  }
}

/// Writes a thread's elements to a (64, 64) tile in shared memory, transposed.
template <class C>
__device__ __forceinline__ void simt_store_transposed(const C (&values)[4][4], C* tile) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const Pack<C, 4> rows{values[0][j], values[1][j], values[2][j], values[3][j]};
    store_pack(tile + simt_column_of(j) * simt_line + simt_row_of(0), rows);
  }
}

/// Writes the sums, row i times factor(i), to rows [first, end) and 64 columns from `column` on.
template <class C, class T, class Factor>
__device__ __forceinline__ void simt_write(const C (&sum)[4][4], HeadRows<T> to, int first, int end,
                                           int column, int head_dim, Factor&& factor) {
  simt_each_element([&](int i, int j) {
    const int row = first + simt_row_of(i), col = column + simt_column_of(j);
    if (row < end && col < head_dim) to[row][col] = from<T>(sum[i][j] * factor(i));
  });
}

/// Whether this thread's elements are kept, a bit each. Rows are queries from `query`, counted over all
/// heads, on, columns keys from `key` on; or the other way round.
__device__ __forceinline__ unsigned simt_keeps_of_query_rows(const Dropout& dropout, int64_t query, int key) {
  unsigned bits = 0;
#pragma unroll 1
  for (int n = 0; n < 16; ++n)
    bits |= unsigned(dropout.keeps(query + simt_row_of(n / 4), key + simt_column_of(n % 4))) << n;
  return bits;
}
__device__ __forceinline__ unsigned simt_keeps_of_key_rows(const Dropout& dropout, int64_t query, int key) {
  unsigned bits = 0;
#pragma unroll 1
  for (int n = 0; n < 16; ++n)
    bits |= unsigned(dropout.keeps(query + simt_column_of(n % 4), key + simt_row_of(n / 4))) << n;
  return bits;
}
__device__ __forceinline__ bool simt_bit(unsigned bits, int i, int j) { return bits >> (4 * i + j) & 1u; }

/// Fills a tile with what a mask adds to the scores of 64 queries and 64 keys, lying as `simt_store_transposed` writes
/// these, so that each thread reads what it will write. Its barriers come after all reads of the tile before. Whether
/// any of the queries sees any of the keys, in all threads.
template <bool rows_are_keys, class T, class C>
__device__ __forceinline__ bool simt_load_mask(const HeadMask<T, C>& mask, const Problem& problem,
                                               int first_query, int first_key, C* tile) {
  __syncthreads();
  bool sees_any = false;
#pragma unroll 1
  for (int index = int(threadIdx.x); index < simt_tile * simt_tile; index += simt_threads) {
    const int q = index / simt_tile, k = index % simt_tile, query = first_query + q;
    const bool exists = query < int(problem.queries) && first_key + k < int(problem.visible_keys(query));
    const C added = exists ? mask.added(query, first_key + k) : C(-INFINITY);
    tile[rows_are_keys ? q * simt_line + k : k * simt_line + q] = added;
    sees_any |= !(added == C(-INFINITY));
  }
  return __syncthreads_or(sees_any);
}

/// Adds it to this thread's scaled scores.
template <class C>
__device__ __forceinline__ void simt_add_mask(const C* tile, C (&s)[4][4]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const auto added = load_pack<4>(tile + simt_column_of(j) * simt_line + simt_row_of(0));
#pragma unroll
    for (int i = 0; i < 4; ++i) s[i][j] = added.at[i] == C(-INFINITY) ? C(-INFINITY) : s[i][j] + added.at[i];
  }
}

/// `op` over the 16 threads of a row, in all of them.
template <class Op, class C>
__device__ __forceinline__ C simt_row_reduce(Op op, C value) {
#pragma unroll
  for (int offset = 8; offset > 0; offset /= 2) value = op(value, __shfl_xor_sync(full_warp, value, offset));
  return value;
}

}  // namespace reprise::kernels::device
