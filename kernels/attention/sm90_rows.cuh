// What a warpgroup of the Hopper attention kernel does with its 64 rows: the two products by wgmma, the
// online softmax between them, and the way out through shared memory. Scores and outputs lie in registers as
// Note [Wgmma tiles] of simt/ptx_sm90.h says: a thread has two rows, element i is in the second if i % 4
// >= 2.
#pragma once

#include "reprise/kernels/attention/mma.cuh"
#include "reprise/kernels/attention/sm90_ring.cuh"

namespace reprise::kernels::sm90 {

inline constexpr int group_of_8_rows = 1024;  // bytes

/// s (64, 128) = q k^T, in the background.
template <class E, class T>
__device__ __forceinline__ void multiply_by_keys(float (&s)[T::keys / 2], const unsigned char* q,
                                                 const unsigned char* k) {
  const auto a = ptx::matrix_descriptor(q, 0, group_of_8_rows, ptx::Swizzle::bytes128);
  const auto b = ptx::matrix_descriptor(k, 0, group_of_8_rows, ptx::Swizzle::bytes128);
#pragma unroll
  for (int step = 0; step < T::head_dim / 16; ++step) {
    const int slice = step / 4, within = step % 4 * 32;
    ptx::wgmma<E, ptx::Major::k>(s, ptx::advanced(a, slice * T::q_slice_bytes + within),
                                 ptx::advanced(b, slice * T::kv_slice_bytes + within), step > 0);
  }
  ptx::wgmma_commit();
}

/// o (64, head_dim) += p v, in the background.
template <class E, class T>
__device__ __forceinline__ void multiply_by_values(float (&o)[T::head_dim / 2],
                                                   const uint32_t (&p)[T::keys / 16][4],
                                                   const unsigned char* v) {
  const auto b = ptx::matrix_descriptor(v, T::kv_slice_bytes, group_of_8_rows, ptx::Swizzle::bytes128);
#pragma unroll
  for (int step = 0; step < T::keys / 16; ++step)
    ptx::wgmma<E, ptx::Major::n>(o, p[step], ptx::advanced(b, step * 2 * group_of_8_rows), true);
  ptx::wgmma_commit();
}

/// The warpgroup's 64 queries, and this thread's two of them.
struct Rows {
  int first;       ///< of the warpgroup
  int queries;     ///< of the head
  int own[2];      ///< rows of this thread, within the warpgroup
  int visible[2];  ///< keys that they see
  int all_see;     ///< keys that each of the warpgroup's queries sees

  __device__ Rows(const attention_detail::Problem& problem, int first_query)
      : first(first_query), queries(int(problem.queries)) {
    all_see = device::QueryRange(problem, first, 64).all_see;
    for (int r = 0; r < 2; ++r) {
      own[r] = int(threadIdx.x) % 128 / 32 * 16 + device::fragment_row(2 * r);
      visible[r] = int(problem.visible_keys(first + own[r]));
    }
  }
};

/// Hides keys that a query does not see: of tiles at the diagonal and at the end.
template <int n>
__device__ __forceinline__ void hide(float (&s)[n], const Rows& rows, int first_key) {
  if (first_key + 2 * n <= rows.all_see) return;
#pragma unroll
  for (int i = 0; i < n; ++i)
    if (first_key + i / 4 * 8 + device::fragment_column(i % 4) >= rows.visible[i % 4 / 2]) s[i] = -INFINITY;
}

/// Maximum of unscaled scores, and sum of this thread's columns, of its two rows.
struct Softmax {
  float scale;  // in base 2
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  /// Turns scores into probabilities up to the sum; what was summed before is to be multiplied by `rescale`.
  template <int n>
  __device__ __forceinline__ void add(float (&s)[n], float (&rescale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float largest = max[r];
#pragma unroll
      for (int i = 2 * r; i < n; i += 4) largest = fmaxf(largest, fmaxf(s[i], s[i + 1]));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      // A row that has seen no key yet keeps the maximum -inf; shifting it by 0 avoids -inf - -inf. The
      // rescaling is exactly 1 where the maximum stays, which max * scale - shift in one rounding is not.
      const float base = largest == -INFINITY ? 0.0f : largest, shift = base * scale;
      rescale[r] = ptx::exp2_approx((max[r] - base) * scale);
      max[r] = largest;
      sum[r] *= rescale[r];
#pragma unroll
      for (int i = 2 * r; i < n; i += 4)
#pragma unroll
        for (int e = i; e < i + 2; ++e) {
          s[e] = ptx::exp2_approx(fmaf(s[e], scale, -shift));
          sum[r] += s[e];
        }
    }
  }

  /// Sums over all columns.
  __device__ __forceinline__ void finish() {
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
      sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
    }
  }
};

template <int n>
__device__ __forceinline__ void multiply_rows(float (&o)[n], const float (&factor)[2]) {
#pragma unroll
  for (int i = 0; i < n; ++i) o[i] *= factor[i % 4 / 2];
}

/// Registers of a product as the left operand of the next.
template <class E, int n>
__device__ __forceinline__ void round_to(uint32_t (&p)[n / 8][4], const float (&s)[n]) {
#pragma unroll
  for (int i = 0; i < n / 2; ++i) p[i / 4][i % 4] = device::packed<E>(s[2 * i], s[2 * i + 1]);
}

/// Writes o (64, head_dim), rounded, to the tensor: through `tile`, the warpgroup's own Q, which nothing
/// reads any more. TMA leaves rows beyond the last query alone.
template <class E, class T>
__device__ __forceinline__ void write_out(const float (&o)[T::head_dim / 2], unsigned char* tile,
                                          const ptx::TensorMap* map, const Rows& rows, HeadAt head,
                                          int barrier) {
  ptx::bar_sync(barrier, 128);  // all warps have read Q
#pragma unroll
  for (int i = 0; i < T::head_dim / 2; i += 2) {
    const int row = rows.own[i % 4 / 2], piece = i / 4 % 8, slice = i / 32;
    const int within =
        slice * T::q_slice_bytes + row * 128 + (piece ^ row % 8) * 16 + int(threadIdx.x) % 4 * 4;
    *reinterpret_cast<uint32_t*>(tile + within) = device::packed<E>(o[i], o[i + 1]);
  }
  ptx::fence_proxy_async();
  ptx::bar_sync(barrier, 128);
  if (threadIdx.x % 128 != 0) return;
  for (int slice = 0; slice < T::slices; ++slice)
    ptx::tma_store(map, tile + slice * T::q_slice_bytes, {64 * slice, rows.first, head.h, head.b});
  ptx::tma_store_commit();
  ptx::tma_store_wait<0>();
}

}  // namespace reprise::kernels::sm90
