// Dropout of probabilities in C fragments, with the CPU's bits: element (b, h, i, j) of (B, H, T_q, T_k),
// counted row-major, is kept if its Philox draw reaches the threshold. One Philox block is four keys of a
// query. Where rows start at whole blocks, four lanes that share four blocks compute one each and exchange a
// bit an element.
#pragma once

#include "reprise/core/random.h"
#include "reprise/kernels/attention/mma.cuh"
#include "reprise/kernels/cuda/reduce.cuh"

namespace reprise::kernels::device {

struct Dropout {
  uint32_t threshold;  ///< of the draws' upper 24 bits; 0 is no dropout
  float kept;          ///< what kept probabilities are multiplied by
  uint64_t seed, offset;
  int64_t keys;  ///< T_k

  explicit Dropout(const Problem& problem)
      : threshold(attention_detail::dropout_threshold(problem)),
        kept(float(1 / (1 - problem.dropout))),
        seed(problem.seed),
        offset(problem.offset),
        keys(problem.keys) {}

  __device__ explicit operator bool() const { return threshold > 0; }

  /// Whether key `key` is kept for query `query`, counted over all heads.
  __device__ bool keeps(int64_t query, int64_t key) const {
    return block_bits(query, key) >> (uint64_t(query * keys + key) % 4) & 1u;
  }

  /// Bit e: whether element e of this lane's C fragment is kept. Rows are queries from `query` on, columns
  /// keys from `key`, a multiple of 8, on.
  __device__ unsigned keeps_of_query_rows(int64_t query, int64_t key) const {
    unsigned bits = 0;
    if (keys % 4 == 0) {
      // Lane t of a row's four: keys 4 (t % 2) on, of row g or g + 8.
      const int t = int(threadIdx.x) % 4;
      bits = block_bits(query + fragment_row(t), key + t % 2 * 4) << (4 * t);
      bits |= __shfl_xor_sync(full_warp, bits, 1);
      bits |= __shfl_xor_sync(full_warp, bits, 2);
      return (bits >> (2 * t) & 3u) | (bits >> (8 + 2 * t) & 3u) << 2;
    }
    for (int e = 0; e < 4; ++e)
      bits |= unsigned(keeps(query + fragment_row(e), key + fragment_column(e))) << e;
    return bits;
  }

  /// The same for rows that are keys and columns that are queries.
  __device__ unsigned keeps_of_key_rows(int64_t query, int64_t key) const {
    unsigned bits = 0;
    if (keys % 4 == 0) {
      // Lane r of the four whose rows are one block of keys: what all four have as their element r.
      const int r = int(threadIdx.x) / 4 % 4;
      bits = block_bits(query + fragment_column(r), key + fragment_row(r)) << (4 * r);
      bits |= __shfl_xor_sync(full_warp, bits, 4);
      bits |= __shfl_xor_sync(full_warp, bits, 8);
      bits >>= r;
      return (bits & 1u) | (bits >> 3 & 2u) | (bits >> 6 & 4u) | (bits >> 9 & 8u);
    }
    for (int e = 0; e < 4; ++e)
      bits |= unsigned(keeps(query + fragment_column(e), key + fragment_row(e))) << e;
    return bits;
  }

 private:
  /// Bit w: whether element w of the block that holds this one is kept.
  __device__ unsigned block_bits(int64_t query, int64_t key) const {
    const auto draws = philox_block(seed, offset, uint64_t(query * keys + key) / 4);
    unsigned bits = 0;
#pragma unroll
    for (int w = 0; w < 4; ++w) bits |= unsigned(draws[size_t(w)] >> 8 >= threshold) << w;
    return bits;
  }
};

/// What is dropped becomes 0. Rows are queries from `query`, counted over all heads, on, columns keys from
/// `key` on.
template <int M, int N>
__device__ __forceinline__ void drop_query_rows(const Dropout& dropout, int64_t query, int key,
                                                float (&p)[M][N][4]) {
  unsigned keeps = 0;
  each_element<M, N>([&](int m, int n, int e, int, int) {
    if (e == 0) keeps = dropout.keeps_of_query_rows(query + m * 16, key + n * 8);
    if (!(keeps >> e & 1u)) p[m][n][e] = 0;
  });
}

}  // namespace reprise::kernels::device
