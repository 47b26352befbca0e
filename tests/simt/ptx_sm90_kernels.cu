// Kernels for the tests of simt/ptx_sm90.h (ptx_sm90_kernels.h).
#include "reprise/tests/simt/ptx_sm90_kernels.h"

#include <utility>

#include "reprise/simt/ptx_sm90.h"
#include "reprise/simt/simt.h"

namespace reprise::simt::testing {
namespace {

using ptx::Major, ptx::Mbarrier, ptx::Swizzle, ptx::TensorMap, ptx::TensorTiles;

constexpr int group_bytes = 1024;  // 8 rows of 128 bytes
constexpr int tile_bytes_of(int rows) { return rows * 128; }

template <class T>
__device__ uint32_t packed(float low, float high) {
  const T pair[2] = {T(low), T(high)};
  uint32_t bits;
  memcpy(&bits, pair, sizeof bits);
  return bits;
}

/// d (64, 2 n) of a warpgroup, as Note [Wgmma tiles] says.
template <int n>
__device__ void write(const float (&d)[n], float* to) {
  const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  for (int i = 0; i < n; ++i) to[(16 * warp + g + i % 4 / 2 * 8) * 2 * n + i / 4 * 8 + 2 * t + i % 2] = d[i];
}

/// The misuse is known when it is compiled: a wgmma that may not be waited for would be slow in all cases.
template <class T, int keys, int columns, Sm90Misuse misuse>
__global__ void __launch_bounds__(128)
    products_kernel(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                    const __grid_constant__ TensorMap v_map, float* s_out, float* o_out) {
  REPRISE_DYNAMIC_SHARED(bytes);
  REPRISE_SHARED(Mbarrier, loaded, [1]);
  unsigned char *q = bytes, *k = q + tile_bytes_of(64), *v = k + tile_bytes_of(keys);
  if (misuse == Sm90Misuse::unaligned_tile) q += 512;
  if (threadIdx.x == 0) {
    if (misuse != Sm90Misuse::barrier_not_initialized) ptx::mbarrier_init(&loaded[0], 1);
    if (misuse != Sm90Misuse::no_barrier_fence) ptx::mbarrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    const int all_bytes = tile_bytes_of(64 + keys + keys * (columns / 64));
    ptx::mbarrier_arrive_expect(&loaded[0], all_bytes - (misuse == Sm90Misuse::too_few_bytes ? 128 : 0));
    ptx::tma_load(q, &q_map, &loaded[0], {0, 0});
    ptx::tma_load(k, &k_map, &loaded[0], {0, 0});
    for (int tile = 0; tile < columns / 64; ++tile)
      ptx::tma_load(v + tile * tile_bytes_of(keys), &v_map, &loaded[0], {64 * tile, 0});
  }
  if (misuse != Sm90Misuse::no_wait_for_tiles) ptx::mbarrier_wait(&loaded[0], 0);

  const auto a = ptx::matrix_descriptor(q, 0, group_bytes, Swizzle::bytes128);
  const auto b = ptx::matrix_descriptor(k + (misuse == Sm90Misuse::descriptor_off_by_a_row ? 128 : 0), 0,
                                        group_bytes, Swizzle::bytes128);
  float s[keys / 2];  // (64, keys)
  if (misuse != Sm90Misuse::no_wgmma_fence) ptx::wgmma_fence();
  for (int step = 0; step < 4; ++step)
    ptx::wgmma<T, Major::k>(s, ptx::advanced(a, 32 * step), ptx::advanced(b, 32 * step), step > 0);
  ptx::wgmma_commit();
  if (misuse == Sm90Misuse::wgmma_wait_too_lax)
    ptx::wgmma_wait<1>(s);
  else if (misuse != Sm90Misuse::no_wgmma_wait)
    ptx::wgmma_wait<0>(s);
  write(s, s_out);

  uint32_t p[keys / 16][4];  // (64, keys)
  for (int i = 0; i < keys / 4; ++i) p[i / 4][i % 4] = packed<T>(s[2 * i], s[2 * i + 1]);
  const auto c = ptx::matrix_descriptor(v, tile_bytes_of(keys), group_bytes, Swizzle::bytes128);
  float o[columns / 2];  // (64, columns)
  ptx::wgmma_fence(p);
#pragma unroll
  for (int step = 0; step < keys / 16; ++step)
    ptx::wgmma<T, Major::n>(o, p[step], ptx::advanced(c, 2 * group_bytes * step), step > 0);
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>(o);
  write(o, o_out);
}

TensorMap tiles_by_rows(const uint16_t* data, int rows, int columns) {
  return ptx::make_tensor_map({.data = data,
                               .rank = 2,
                               .sizes = {columns, rows},
                               .strides = {1, columns},
                               .box = {64, rows},
                               .swizzle = Swizzle::bytes128});
}

template <int rank>
__global__ void tma_copy_kernel(const __grid_constant__ TensorMap from, const __grid_constant__ TensorMap to,
                                int4 from_at, int4 to_at, int elements, bool fence) {
  REPRISE_DYNAMIC_SHARED(bytes);
  REPRISE_SHARED(Mbarrier, loaded, [1]);
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&loaded[0], 1);
    ptx::mbarrier_init_fence();
    ptx::mbarrier_arrive_expect(&loaded[0], 2 * elements);
    if constexpr (rank == 2) ptx::tma_load(bytes, &from, &loaded[0], {from_at.x, from_at.y});
    if constexpr (rank == 3) ptx::tma_load(bytes, &from, &loaded[0], {from_at.x, from_at.y, from_at.z});
    if constexpr (rank == 4)
      ptx::tma_load(bytes, &from, &loaded[0], {from_at.x, from_at.y, from_at.z, from_at.w});
  }
  __syncthreads();
  ptx::mbarrier_wait(&loaded[0], 0);
  for (int i = threadIdx.x; i < elements; i += blockDim.x) ++reinterpret_cast<uint16_t*>(bytes)[i];
  if (fence) ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x != 0) return;
  if constexpr (rank == 2) ptx::tma_store(&to, bytes, {to_at.x, to_at.y});
  if constexpr (rank == 3) ptx::tma_store(&to, bytes, {to_at.x, to_at.y, to_at.z});
  if constexpr (rank == 4) ptx::tma_store(&to, bytes, {to_at.x, to_at.y, to_at.z, to_at.w});
  ptx::tma_store_commit();
  ptx::tma_store_wait<0>();
}

__global__ void mbarrier_ring_kernel(int rounds, int* to) {
  REPRISE_SHARED(int, slots, [2][128]);
  REPRISE_SHARED(Mbarrier, full, [2]);
  REPRISE_SHARED(Mbarrier, empty, [2]);
  if (threadIdx.x == 0) {
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_init(&full[i], 32);
      ptx::mbarrier_init(&empty[i], 32);
    }
    ptx::mbarrier_init_fence();
  }
  __syncthreads();
  const int lane = threadIdx.x % 32;
  for (int round = 0; round < rounds; ++round) {
    const int slot = round % 2, parity = round / 2 % 2;
    if (threadIdx.x < 32) {
      ptx::mbarrier_wait(&empty[slot], parity ^ 1);
      for (int i = 0; i < 4; ++i) slots[slot][4 * lane + i] = 1000 * round + 4 * lane + i;
      ptx::mbarrier_arrive(&full[slot]);
    } else {
      ptx::mbarrier_wait(&full[slot], parity);
      for (int i = 0; i < 4; ++i) to[round * 128 + 32 * i + lane] = slots[slot][32 * i + lane];
      ptx::mbarrier_arrive(&empty[slot]);
    }
  }
}

}  // namespace

void run_wgmma_products(const Stream& stream, TileType type, int keys, int columns, const uint16_t* q,
                        const uint16_t* k, const uint16_t* v, float* s, float* o, Sm90Misuse misuse) {
  const TensorMap q_map = tiles_by_rows(q, 64, 64), k_map = tiles_by_rows(k, keys, 64),
                  v_map = tiles_by_rows(v, keys, columns);
  auto run = [&]<class T, int n_keys, int n_columns, Sm90Misuse m>() {
    const size_t bytes = size_t(tile_bytes_of(64 + n_keys + n_keys * (n_columns / 64)));
    launch({.name = "wgmma_products", .grid = 1, .block = 128, .shared_bytes = bytes, .stream = stream},
           products_kernel<T, n_keys, n_columns, m>, q_map, k_map, v_map, s, o);
  };
  auto run_type = [&]<class T>() {
    constexpr Sm90Misuse none = Sm90Misuse::none;
    if (keys == 64)
      columns == 64 ? run.template operator()<T, 64, 64, none>()
                    : run.template operator()<T, 64, 128, none>();
    else
      columns == 64 ? run.template operator()<T, 128, 64, none>()
                    : run.template operator()<T, 128, 128, none>();
  };
  auto run_misuse = [&]<size_t... i>(std::index_sequence<i...>) {
    ((misuse == Sm90Misuse(i + 1) ? run.template operator()<__nv_bfloat16, 64, 64, Sm90Misuse(i + 1)>()
                                  : void()),
     ...);
  };
  if (misuse != Sm90Misuse::none)
    run_misuse(std::make_index_sequence<size_t(Sm90Misuse::descriptor_off_by_a_row)>());
  else if (type == TileType::bf16)
    run_type.template operator()<__nv_bfloat16>();
  else
    run_type.template operator()<__half>();
}

void run_tma_copy(const Stream& stream, const TensorTiles& from, const int (&from_at)[4],
                  const TensorTiles& to, const int (&to_at)[4], bool fence) {
  auto* kernel = from.rank == 2   ? &tma_copy_kernel<2>
                 : from.rank == 3 ? &tma_copy_kernel<3>
                                  : &tma_copy_kernel<4>;
  int elements = 1;
  for (int i = 0; i < from.rank; ++i) elements *= from.box[i];
  launch({.name = "tma_copy", .grid = 1, .block = 64, .shared_bytes = size_t(2 * elements), .stream = stream},
         kernel, ptx::make_tensor_map(from), ptx::make_tensor_map(to),
         int4{from_at[0], from_at[1], from_at[2], from_at[3]}, int4{to_at[0], to_at[1], to_at[2], to_at[3]},
         elements, fence);
}

void run_mbarrier_ring(const Stream& stream, int rounds, int* to) {
  launch({.name = "mbarrier_ring", .grid = 1, .block = 64, .stream = stream}, mbarrier_ring_kernel, rounds,
         to);
}

}  // namespace reprise::simt::testing
