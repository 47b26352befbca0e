// What only Hopper (sm_90a) has: barriers in shared memory that count bytes, tile copies by the tensor memory
// accelerator (TMA), and matrix multiply by warpgroups straight from shared memory (wgmma). For the files
// sm90_* alone. As in ptx.h, a wrapper is the instruction on a GPU (ptx_sm90_gpu.h) and a model of it in the
// emulator (ptx_sm90_emulated.h).
//
// Note [Wgmma tiles]: a warpgroup is four warps, the first a multiple of four. Warp w of it holds rows 16w to
// 16w + 15 of D (64 x N) and of A in registers, laid out as in Note [Fragments]: d[4j .. 4j+3] are the four
// registers of the C tile of columns 8j .. 8j+7; a[0..3] those of A. So d[8k .. 8k+7], rounded and packed by
// pairs, are the A of step k of the next product. A and B in shared memory are tiles of 64 columns (128
// bytes), rows one after the other, swizzled by 128 bytes, 1024-byte aligned: what TMA writes with a box of
// 64 columns.
//   K-major (Q, and K of Q K^T): a row of the tile is one of A, or a column of B; 64 columns are 64 of K. A
//   step of 16
//     along K is 32 bytes. Groups of 8 rows are stride_bytes = 1024 apart; leading_bytes is not used.
//   N-major (V of P V): a row of the tile is one of B, its 64 columns are columns of B. A step of 16 along K
//   is 16
//     rows, 2048 bytes. Groups of 8 rows are stride_bytes = 1024 apart, the tiles of the next 64 columns
//     leading_bytes.
#pragma once

#include "reprise/simt/ptx.h"
#include "reprise/simt/tensor_map.h"

namespace reprise::simt::ptx {

/// A barrier in shared memory. A phase ends when `arrivals` threads have arrived and all bytes that were
/// expected have been written by TMA; then the next begins. Phases have parity 0, 1, 0, ...
struct alignas(8) Mbarrier {
  uint64_t state;
};

/// By one thread, before others touch the barrier: then mbarrier_init_fence and __syncthreads.
__device__ void mbarrier_init(Mbarrier* barrier, int arrivals, Here here = Here::current());
__device__ void mbarrier_init_fence();

/// Arrives; with `bytes`, the phase also waits for so many more.
__device__ void mbarrier_arrive(Mbarrier* barrier, Here here = Here::current());
__device__ void mbarrier_arrive_expect(Mbarrier* barrier, int bytes, Here here = Here::current());

/// Waits until the phase of this parity has ended: with 0, the first; with 1 it returns at once on a new
/// barrier.
__device__ void mbarrier_wait(Mbarrier* barrier, int parity, Here here = Here::current());

/// Copies the tile at these coordinates to shared memory, 128-byte aligned (1024, 512 or 256 if swizzled),
/// and counts its bytes, those outside the tensor too, at the barrier. By one thread.
template <int rank>
__device__ __forceinline__ void tma_load(void* to_shared, const TensorMap* map, Mbarrier* barrier,
                                         const int (&at)[rank], Here here = Here::current());

/// Copies a tile from shared memory to the tensor. Threads that wrote the tile call fence_proxy_async, then a
/// barrier tells the one thread that stores it.
template <int rank>
__device__ __forceinline__ void tma_store(const TensorMap* map, const void* from_shared,
                                          const int (&at)[rank], Here here = Here::current());
__device__ void tma_store_commit();
/// Waits until at most the `pending` newest groups of this thread's stores still read shared memory.
template <int pending>
__device__ __forceinline__ void tma_store_wait();

/// Orders this thread's writes of shared memory before later accesses of TMA and wgmma.
__device__ void fence_proxy_async();

/// Gives registers back, or waits for more: multiples of 8 in 24 to 256 per thread. By all warps of a
/// warpgroup.
template <int registers>
__device__ __forceinline__ void lower_registers();
template <int registers>
__device__ __forceinline__ void raise_registers();

/// A tile in shared memory as wgmma takes it (Note [Wgmma tiles]).
using MatrixDescriptor = uint64_t;
namespace detail {
__host__ __device__ constexpr MatrixDescriptor encoded_descriptor(uint32_t address, int leading_bytes,
                                                                  int stride_bytes, Swizzle swizzle) {
  auto field = [](uint32_t bytes) { return uint64_t(bytes & 0x3ffff) >> 4; };
  return field(address) | field(uint32_t(leading_bytes)) << 16 | field(uint32_t(stride_bytes)) << 32 |
         uint64_t(swizzle) << 62;
}
}  // namespace detail
__device__ MatrixDescriptor matrix_descriptor(const void* shared, int leading_bytes, int stride_bytes,
                                              Swizzle swizzle, Here here = Here::current());
/// The descriptor of a tile that starts so many bytes later.
__device__ MatrixDescriptor advanced(MatrixDescriptor descriptor, int bytes);

namespace detail {
/// The empty instructions of wgmma_fence and wgmma_wait: what was written to these registers is written
/// before, what is read of them is read after. Nothing in the emulator.
__device__ void keep_written(float& value);
__device__ void keep_written(uint32_t& value);
template <class T, size_t n>
__device__ __forceinline__ void keep_written(T (&values)[n]);
}  // namespace detail

enum class Major { k, n };

/// d (64 x N, f32) = a (64 x 16) b (16 x N), or += with `accumulate`; N is twice the number of registers, 64
/// or 128; elements T = __nv_bfloat16 or __half. A lies in shared memory, K-major, or in registers. In the
/// background: d is not to be touched, nor a's memory and b's reused, before wgmma_wait; a chain on one d
/// needs no wait.
template <class T, Major b_major, int n>
__device__ __forceinline__ void wgmma(float (&d)[n], MatrixDescriptor a, MatrixDescriptor b, bool accumulate,
                                      Here here = Here::current());
template <class T, Major b_major, int n>
__device__ __forceinline__ void wgmma(float (&d)[n], const uint32_t (&a)[4], MatrixDescriptor b,
                                      bool accumulate, Here here = Here::current());

/// Before the first wgmma, and again after registers of d or a were written by other instructions: these are
/// named here, arrays of float or uint32_t of any rank, for nothing else keeps the compiler from writing them
/// after the fence.
__device__ void wgmma_fence();
template <class... Registers>
__device__ __forceinline__ void wgmma_fence(Registers&... written) {
  (detail::keep_written(written), ...);
  wgmma_fence();
}
/// Closes the group of this warp's wgmmas since the last commit.
__device__ void wgmma_commit(Here here = Here::current());
/// Waits until at most the `pending` newest groups are under way. `d` is what the caller touches next.
template <int pending, int n>
__device__ __forceinline__ void wgmma_wait(float (&d)[n], Here here = Here::current());

}  // namespace reprise::simt::ptx

#ifdef __CUDACC__
#include "reprise/simt/ptx_sm90_gpu.h"
#else
#include "reprise/simt/ptx_sm90_emulated.h"
#endif
