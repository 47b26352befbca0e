// How tiles of Q, K and V come to the warpgroups of the Hopper attention kernel: one thread, the producer,
// loads them by TMA into a ring in shared memory; barriers say which slots are full and which are empty
// again.
#pragma once

#include "reprise/kernels/attention/heads.cuh"
#include "reprise/simt/ptx_sm90.h"

namespace reprise::kernels::sm90 {

namespace ptx = simt::ptx;

/// A block: 128 queries, 64 for each of two warpgroups, against tiles of 128 keys.
template <int dim>
struct Tile {
  static constexpr int head_dim = dim,
                       slices = dim / 64;  // a slice: 64 columns, the 128 bytes that TMA swizzles
  static constexpr int consumers = 2, threads = 128 * (1 + consumers);
  static constexpr int group_queries = 64, queries = group_queries * consumers, keys = 128, slots = 2;
  static constexpr int q_slice_bytes = group_queries * 128, q_group_bytes = q_slice_bytes * slices;
  static constexpr int kv_slice_bytes = keys * 128, kv_bytes = kv_slice_bytes * slices;
  static constexpr size_t shared_bytes = size_t(consumers * q_group_bytes + 2 * slots * kv_bytes);
};

/// Slots of one operand. Slot i % slots holds the i-th tile; its barriers have seen i / slots tiles before.
template <int slots>
struct RingBarriers {
  ptx::Mbarrier full[slots], empty[slots];

  __device__ void init(int readers) {
    for (int i = 0; i < slots; ++i) {
      ptx::mbarrier_init(&full[i], 1);
      ptx::mbarrier_init(&empty[i], readers);
    }
  }
  __device__ __forceinline__ void wait_until_empty(int i) {
    ptx::mbarrier_wait(&empty[i % slots], i / slots % 2 ^ 1);
  }
  __device__ __forceinline__ void wait_until_full(int i) {
    ptx::mbarrier_wait(&full[i % slots], i / slots % 2);
  }
  /// By whole warps, each of which is one reader.
  __device__ __forceinline__ void release(int i) {
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&empty[i % slots]);
  }
};

template <int slots>
struct Barriers {
  ptx::Mbarrier q_full;
  RingBarriers<slots> k, v;

  /// By one thread.
  __device__ void init(int readers) {
    ptx::mbarrier_init(&q_full, 1);
    k.init(readers);
    v.init(readers);
    ptx::mbarrier_init_fence();
  }
};

/// Where the tiles lie: Q (consumers, slices, 64, 64), then K and V (slots, slices, 128, 64) each.
template <class T>
struct SharedTiles {
  unsigned char* bytes;
  __device__ unsigned char* q(int group) const { return bytes + group * T::q_group_bytes; }
  __device__ unsigned char* k(int i) const { return q(T::consumers) + i % T::slots * T::kv_bytes; }
  __device__ unsigned char* v(int i) const {
    return k(0) + T::slots * T::kv_bytes + i % T::slots * T::kv_bytes;
  }
};

/// Which rows of which head.
struct HeadAt {
  int b, h;
};

/// Loads `slices` slices of a head's rows from `row` on, to `to`.
template <int slices>
__device__ __forceinline__ void load_slices(unsigned char* to, int slice_bytes, const ptx::TensorMap* map,
                                            ptx::Mbarrier* full, int row, HeadAt head) {
  for (int slice = 0; slice < slices; ++slice)
    ptx::tma_load(to + slice * slice_bytes, map, full, {64 * slice, row, head.h, head.b});
}

/// The producer's work: Q, then the tiles of keys from the last to the first.
template <class T>
__device__ __forceinline__ void produce(SharedTiles<T> tiles, Barriers<T::slots>& barriers,
                                        const ptx::TensorMap* q, const ptx::TensorMap* k,
                                        const ptx::TensorMap* v, int first_query, HeadAt head, HeadAt kv_head,
                                        int n_tiles) {
  ptx::mbarrier_arrive_expect(&barriers.q_full, T::consumers * T::q_group_bytes);
  for (int group = 0; group < T::consumers; ++group)
    load_slices<T::slices>(tiles.q(group), T::q_slice_bytes, q, &barriers.q_full,
                           first_query + group * T::group_queries, head);
  for (int i = 0; i < n_tiles; ++i) {
    const int first_key = (n_tiles - 1 - i) * T::keys;
    barriers.k.wait_until_empty(i);
    ptx::mbarrier_arrive_expect(&barriers.k.full[i % T::slots], T::kv_bytes);
    load_slices<T::slices>(tiles.k(i), T::kv_slice_bytes, k, &barriers.k.full[i % T::slots], first_key,
                           kv_head);
    barriers.v.wait_until_empty(i);
    ptx::mbarrier_arrive_expect(&barriers.v.full[i % T::slots], T::kv_bytes);
    load_slices<T::slices>(tiles.v(i), T::kv_slice_bytes, v, &barriers.v.full[i % T::slots], first_key,
                           kv_head);
  }
}

}  // namespace reprise::kernels::sm90
