// The machine instructions that CUDA C++ has no name for: all of the project's inline PTX, behind one wrapper
// an instruction. On a GPU a wrapper is the instruction (ptx_gpu.h); in the emulator it is a model of what
// the PTX manual promises (ptx_emulated.h), fragment layouts included. What only Hopper has is in ptx_sm90.h.
//
// The last argument of a wrapper, filled in by the compiler, is where the emulator's errors point.
//
// Note [Fragments]: how a warp's 32 lanes hold the tiles of mma and ldmatrix. Lane l = 4g + t, g in 0..7, t
// in 0..3. A register of a 16-bit type holds two elements, the one of the lower column (A, C) or row (B) in
// its low half.
//   A (16 x 16): a[0] rows g,   columns 2t, 2t+1     a[1] row g+8, the same columns
//                a[2] row g,    columns 2t+8, 2t+9   a[3] row g+8, the same columns
//   B (16 x 8):  b0 rows 2t, 2t+1, column g          b1 rows 2t+8, 2t+9, column g
//   C (16 x 8):  d[0], d[1] row g, columns 2t, 2t+1  d[2], d[3] row g+8, the same columns
// So C's registers, rounded and packed by pairs, are A's: two C tiles side by side make one A.
// ldmatrix reads 8 x 8 matrices of 16-bit elements: lane l gives the address of row l % 8 of matrix l / 8,
// and receives in r[j] elements (row g; columns 2t, 2t+1) of matrix j, or of its transpose. ldmatrix_x4 of A
// stored by rows: matrices (rows 0-7, columns 0-7), (rows 8-15, columns 0-7), (rows 0-7, columns 8-15), (rows
// 8-15, columns 8-15). B stored by columns (K of Q K^T) loads plainly; B stored by rows (V of P V) through
// the transposing loads.
#pragma once

#include <source_location>

#include "reprise/simt/simt.h"

namespace reprise::simt::ptx {

using Here = std::source_location;

/// Copies 16 (8, 4) bytes from global to shared memory in the background; both addresses are multiples of the
/// size. With `valid` false the source is not read and the destination becomes zero. The bytes arrive by the
/// cp_async_wait that covers them, and other threads see them after a barrier that follows it.
__device__ void cp_async16(void* to_shared, const void* from_global, bool valid = true,
                           Here here = Here::current());
__device__ void cp_async8(void* to_shared, const void* from_global, bool valid = true,
                          Here here = Here::current());
__device__ void cp_async4(void* to_shared, const void* from_global, bool valid = true,
                          Here here = Here::current());

/// Closes the group of this thread's copies since the last commit; a group may be empty.
__device__ void cp_async_commit();

/// Waits until at most the `pending` newest groups of this thread are under way.
template <int pending>
__device__ __forceinline__ void cp_async_wait();

/// Loads one, two or four 8 x 8 matrices of 16-bit elements from shared memory (Note [Fragments]), by a full
/// warp. `row` is this lane's row: 16 bytes, 16-byte aligned; of lanes 0-7 for x1 and 0-15 for x2, others'
/// are ignored.
__device__ void ldmatrix_x1(uint32_t& r, const void* row, Here here = Here::current());
__device__ void ldmatrix_x2(uint32_t (&r)[2], const void* row, Here here = Here::current());
__device__ void ldmatrix_x4(uint32_t (&r)[4], const void* row, Here here = Here::current());
__device__ void ldmatrix_x1_trans(uint32_t& r, const void* row, Here here = Here::current());
__device__ void ldmatrix_x2_trans(uint32_t (&r)[2], const void* row, Here here = Here::current());
__device__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* row, Here here = Here::current());

/// d (16 x 8, f32) += a (16 x 16) b (16 x 8), of T = __nv_bfloat16 or __half, by a full warp (Note
/// [Fragments]).
template <class T>
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                             Here here = Here::current());

/// d (16 x 8, f32) += a (16 x 8) b (8 x 8) of f32 bits, read as TF32: the low 13 bits are ignored. Lane 4g +
/// t holds a[0] (g, t), a[1] (g+8, t), a[2] (g, t+4), a[3] (g+8, t+4); b0 (t, g), b1 (t+4, g); d as above.
__device__ void mma_m16n8k8_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                                 Here here = Here::current());

/// x as f32 bits rounded to TF32 (10 mantissa bits, nearest, ties away from zero).
__device__ uint32_t to_tf32(float x);

/// Named barriers of a block, id 1..15 (0 is __syncthreads'): `threads`, a multiple of 32, is how many
/// threads sync or arrive at it in all. bar_sync waits for them; bar_arrive does not.
__device__ void bar_sync(int id, int threads, Here here = Here::current());
__device__ void bar_arrive(int id, int threads, Here here = Here::current());

/// 2^x and log2(x) to about two units in the last place; subnormal inputs and results are zero.
/// exp2_approx(-inf) = 0, so a masked score needs no test.
__device__ float exp2_approx(float x);
__device__ float log2_approx(float x);

/// tanh(x) to about 2^-11, relative.
__device__ float tanh_approx(float x);

}  // namespace reprise::simt::ptx

#ifdef __CUDACC__
#include "reprise/simt/ptx_gpu.h"
#else
#include "reprise/simt/ptx_emulated.h"
#endif
