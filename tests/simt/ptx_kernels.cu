// Kernels of one instruction each (ptx_kernels.h).
#include "reprise/tests/simt/ptx_kernels.h"

#include "reprise/simt/ptx.h"
#include "reprise/simt/simt.h"

namespace reprise::simt::testing {
namespace {

template <TileType type>
__global__ void mma_kernel(const uint32_t* a, const uint32_t* b, float* d) {
  const int lane = threadIdx.x;
  const uint32_t a_registers[4] = {a[4 * lane], a[4 * lane + 1], a[4 * lane + 2], a[4 * lane + 3]};
  float d_registers[4] = {d[4 * lane], d[4 * lane + 1], d[4 * lane + 2], d[4 * lane + 3]};
  const uint32_t b0 = b[2 * lane], b1 = b[2 * lane + 1];
  if constexpr (type == TileType::bf16) ptx::mma_m16n8k16<__nv_bfloat16>(d_registers, a_registers, b0, b1);
  if constexpr (type == TileType::f16) ptx::mma_m16n8k16<__half>(d_registers, a_registers, b0, b1);
  if constexpr (type == TileType::tf32) ptx::mma_m16n8k8_tf32(d_registers, a_registers, b0, b1);
  for (int i = 0; i < 4; ++i) d[4 * lane + i] = d_registers[i];
}

template <int count, bool transposed>
__global__ void ldmatrix_kernel(const uint16_t* rows_of_8, const int* rows, uint32_t* r) {
  REPRISE_SHARED(uint4, shared, [64]);
  const int lane = threadIdx.x;
  for (int i = lane; i < 64; i += 32) shared[i] = reinterpret_cast<const uint4*>(rows_of_8)[i];
  __syncthreads();
  const void* row = lane < 8 * count ? &shared[rows[lane]] : nullptr;
  uint32_t registers[4] = {};
  if constexpr (count == 1) {
    transposed ? ptx::ldmatrix_x1_trans(registers[0], row) : ptx::ldmatrix_x1(registers[0], row);
  } else if constexpr (count == 2) {
    uint32_t pair[2];
    transposed ? ptx::ldmatrix_x2_trans(pair, row) : ptx::ldmatrix_x2(pair, row);
    registers[0] = pair[0];
    registers[1] = pair[1];
  } else {
    transposed ? ptx::ldmatrix_x4_trans(registers, row) : ptx::ldmatrix_x4(registers, row);
  }
  for (int i = 0; i < 4; ++i) r[4 * lane + i] = registers[i];
}

template <class Piece>
__device__ void copy_piece(Piece* to, const Piece* from, bool valid) {
  if constexpr (sizeof(Piece) == 16) ptx::cp_async16(to, from, valid);
  if constexpr (sizeof(Piece) == 8) ptx::cp_async8(to, from, valid);
  if constexpr (sizeof(Piece) == 4) ptx::cp_async4(to, from, valid);
}

/// Thread t writes what thread 63 - t has copied.
template <class Piece>
__global__ void cp_async_kernel(const Piece* from, const bool* valid, Piece* to) {
  REPRISE_SHARED(Piece, shared, [copy_stages][copy_threads]);
  const int t = threadIdx.x;
  for (int stage = 0; stage < copy_stages; ++stage) {
    const int i = stage * copy_threads + t;
    // A null source of an invalid piece must not be read.
    copy_piece(&shared[stage][t], valid[i] ? from + i : nullptr, valid[i]);
    ptx::cp_async_commit();
  }
  auto write = [&](int stage) { to[stage * copy_threads + t] = shared[stage][copy_threads - 1 - t]; };
  ptx::cp_async_wait<2>();
  __syncthreads();
  write(0);
  ptx::cp_async_wait<1>();
  __syncthreads();
  write(1);
  ptx::cp_async_wait<0>();
  __syncthreads();
  write(2);
}

/// Rows of `pieces` 16-byte pieces, to shared memory in which piece p of row r lies at p ^ (r % pieces).
__device__ void load_rows(uint4* shared, const uint16_t* from, int rows, int pieces) {
  for (int i = threadIdx.x; i < rows * pieces; i += 32) {
    const int row = i / pieces, piece = i % pieces;
    ptx::cp_async16(&shared[row * pieces + (piece ^ (row % pieces))],
                    reinterpret_cast<const uint4*>(from) + i);
  }
}
__device__ const uint4* piece_at(const uint4* shared, int row, int piece, int pieces) {
  return &shared[row * pieces + (piece ^ (row % pieces))];
}
__device__ uint32_t packed(float low, float high) {
  __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  uint32_t bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

__global__ void two_products_kernel(const uint16_t* q, const uint16_t* k, const uint16_t* v, float* y,
                                    float* z) {
  REPRISE_SHARED(uint4, shared_q, [16 * 4]);
  REPRISE_SHARED(uint4, shared_k, [8 * 4]);
  REPRISE_SHARED(uint4, shared_v, [16 * 2]);
  const int lane = threadIdx.x, g = lane / 4, t = lane % 4;
  load_rows(shared_q, q, 16, 4);
  load_rows(shared_k, k, 8, 4);
  load_rows(shared_v, v, 16, 2);
  ptx::cp_async_commit();
  ptx::cp_async_wait<0>();
  __syncwarp();

  float scores[4] = {};  // (16, 8)
  for (int step = 0; step < 2; ++step) {
    uint32_t a[4], b[2];
    ptx::ldmatrix_x4(a, piece_at(shared_q, lane % 16, 2 * step + lane / 16, 4));
    ptx::ldmatrix_x2(b, piece_at(shared_k, lane % 8, 2 * step + lane / 8 % 2, 4));
    ptx::mma_m16n8k16<__nv_bfloat16>(scores, a, b[0], b[1]);
  }
  const uint32_t p[4] = {packed(scores[0], scores[1]), packed(scores[2], scores[3]),
                         packed(scores[0], scores[1]), packed(scores[2], scores[3])};  // (16, 8 | 8)
  for (int i = 0; i < 4; ++i) y[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = scores[i];
  for (int column = 0; column < 2; ++column) {
    float out[4] = {};  // (16, 8)
    uint32_t b[2];
    ptx::ldmatrix_x2_trans(b, piece_at(shared_v, lane % 16, column, 2));
    ptx::mma_m16n8k16<__nv_bfloat16>(out, p, b[0], b[1]);
    for (int i = 0; i < 4; ++i) z[(g + i / 2 * 8) * 16 + 8 * column + 2 * t + i % 2] = out[i];
  }
}

__global__ void named_barriers_kernel(int rounds, int* to) {
  REPRISE_SHARED(int, numbers, [64]);
  const int t = threadIdx.x % 64;
  const bool writer = threadIdx.x < 64;
  for (int round = 0; round < rounds; ++round) {
    if (writer) {
      if (round > 0) ptx::bar_sync(2, 128);
      numbers[t] = 100 * round + t;
      ptx::bar_arrive(1, 128);
    } else {
      ptx::bar_sync(1, 128);
      to[round * 64 + t] = numbers[63 - t];
      if (round + 1 < rounds) ptx::bar_arrive(2, 128);
    }
  }
}

__global__ void approximations_kernel(const float* x, Approximations* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] = {ptx::exp2_approx(x[i]), ptx::log2_approx(x[i]), ptx::tanh_approx(x[i]), ptx::to_tf32(x[i])};
}

__device__ void copy_through_shared(Misuse misuse, unsigned char* shared, const unsigned char* from) {
  const int lane = threadIdx.x;
  ptx::cp_async16(shared + 16 * lane + (misuse == Misuse::unaligned_destination ? 4 : 0),
                  from + 16 * lane + (misuse == Misuse::unaligned_source ? 8 : 0));
  if (misuse != Misuse::no_commit) ptx::cp_async_commit();
  if (misuse == Misuse::lax_wait)
    ptx::cp_async_wait<1>();
  else if (misuse != Misuse::no_wait)
    ptx::cp_async_wait<0>();
  __syncwarp();
}

__global__ void misuse_kernel(Misuse misuse, const unsigned char* from, unsigned char* to) {
  REPRISE_SHARED(uint4, shared, [33]);
  auto* bytes = reinterpret_cast<unsigned char*>(&shared[0]);
  const int lane = threadIdx.x;
  copy_through_shared(misuse, bytes, from);
  const void* row = misuse == Misuse::row_in_global_memory ? from + 16 * lane
                    : misuse == Misuse::unaligned_row      ? bytes + 16 * lane + 2
                                                           : bytes + 16 * lane;
  uint32_t r[4];
  if (misuse == Misuse::partial_warp && lane == 5) return;
  ptx::ldmatrix_x4(r, row);
  if (misuse == Misuse::barrier_of_part_of_a_warp) ptx::bar_sync(1, 24);
  if (misuse == Misuse::barrier_id) ptx::bar_sync(16, 32);
  for (int i = 0; i < 16; ++i) to[16 * lane + i] = bytes[16 * lane + i];
}

}  // namespace

void run_mma(const Stream& stream, TileType type, const uint32_t* a, const uint32_t* b, float* d) {
  auto* kernel = type == TileType::bf16  ? &mma_kernel<TileType::bf16>
                 : type == TileType::f16 ? &mma_kernel<TileType::f16>
                                         : &mma_kernel<TileType::tf32>;
  launch({.name = "mma", .grid = 1, .block = 32, .stream = stream}, kernel, a, b, d);
}

void run_ldmatrix(const Stream& stream, int count, bool transposed, const uint16_t* rows_of_8,
                  const int* rows, uint32_t* r) {
  auto* kernel = count == 1   ? transposed ? &ldmatrix_kernel<1, true> : &ldmatrix_kernel<1, false>
                   : count == 2 ? transposed ? &ldmatrix_kernel<2, true> : &ldmatrix_kernel<2, false>
                   : transposed ? &ldmatrix_kernel<4, true>
                              : &ldmatrix_kernel<4, false>;
  launch({.name = "ldmatrix", .grid = 1, .block = 32, .stream = stream}, kernel, rows_of_8, rows, r);
}

void run_cp_async(const Stream& stream, int bytes, const unsigned char* from, const bool* valid,
                  unsigned char* to) {
  auto run = [&]<class Piece>(Piece) {
    launch({.name = "cp_async", .grid = 1, .block = copy_threads, .stream = stream}, cp_async_kernel<Piece>,
           reinterpret_cast<const Piece*>(from), valid, reinterpret_cast<Piece*>(to));
  };
  bytes == 16 ? run(uint4{}) : bytes == 8 ? run(uint2{}) : run(0u);
}

void run_two_products(const Stream& stream, const uint16_t* q, const uint16_t* k, const uint16_t* v, float* y,
                      float* z) {
  launch({.name = "two_products", .grid = 1, .block = 32, .stream = stream}, two_products_kernel, q, k, v, y,
         z);
}

void run_named_barriers(const Stream& stream, int rounds, int* to) {
  launch({.name = "named_barriers", .grid = 1, .block = 128, .stream = stream}, named_barriers_kernel, rounds,
         to);
}

void run_approximations(const Stream& stream, const float* x, Approximations* y, int n) {
  launch({.name = "approximations", .grid = unsigned(n + 127) / 128, .block = 128, .stream = stream},
         approximations_kernel, x, y, n);
}

void run_misuse(const Stream& stream, Misuse misuse, const unsigned char* from, unsigned char* to) {
  launch({.name = "misuse", .grid = 1, .block = 32, .stream = stream}, misuse_kernel, misuse, from, to);
}

}  // namespace reprise::simt::testing
