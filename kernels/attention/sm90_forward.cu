// Attention forward for Hopper (sm_90a), for head sizes 64 and 128 in bf16 and f16, without dropout or a mask:
//   S = scale Q K^T,  P = exp(S - max),  O = P V / rowsum(P),  lse = max + log(rowsum(P))
// by wgmma from swizzled shared memory, which TMA fills (Shah et al. 2024, FlashAttention-3). A block takes
// 128 queries of a head: one warpgroup gives its registers away, and one thread of it loads tiles; two
// warpgroups take 64 queries each against tiles of 128 keys, from the last that they see to the first. While
// the tensor cores multiply the next scores and P V, a warpgroup computes the exponentials of the scores
// before.
//
// Per head: 4 T_q T_k D operations, half if causal, and 2 (T_q + T_k) D elements that must move. Shared
// memory: Q and two slots each of K and V, 160 KiB at head size 128.
//
// Measured on an H100: docs/kernels.md.
#include <array>

#include "reprise/core/cuda/runtime.h"
#include "reprise/kernels/attention/backend.h"
#include "reprise/kernels/attention/sm90_rows.cuh"

namespace reprise::kernels::sm90 {
namespace {

using attention_detail::Problem;
using simt::ptx::TensorMap;

struct Maps {
  TensorMap q, k, v, out;
};

/// The work of a warpgroup that computes.
template <class E, class T>
__device__ __forceinline__ void consume(SharedTiles<T> tiles, Barriers<T::slots>& barriers, const Rows& rows,
                                        int n_tiles, const unsigned char* q, Softmax& softmax,
                                        float (&o)[T::head_dim / 2]) {
  float s[T::keys / 2];         // (64, keys)
  uint32_t p[T::keys / 16][4];  // (64, keys)
  float rescale[2];
  ptx::mbarrier_wait(&barriers.q_full, 0);
  barriers.k.wait_until_full(0);
  ptx::wgmma_fence();
  multiply_by_keys<E, T>(s, q, tiles.k(0));
  ptx::wgmma_wait<0>(s);
  barriers.k.release(0);
  hide(s, rows, (n_tiles - 1) * T::keys);
  softmax.add(s, rescale);
  round_to<E>(p, s);
  for (int i = 1; i < n_tiles; ++i) {
    barriers.v.wait_until_full(i - 1);
    barriers.k.wait_until_full(i);
    ptx::wgmma_fence(s, o, p);
    multiply_by_keys<E, T>(s, q, tiles.k(i));
    multiply_by_values<E, T>(o, p, tiles.v(i - 1));
    ptx::wgmma_wait<1>(s);
    barriers.k.release(i);
    hide(s, rows, (n_tiles - 1 - i) * T::keys);
    softmax.add(s, rescale);
    ptx::wgmma_wait<0>(o);
    barriers.v.release(i - 1);
    multiply_rows(o, rescale);
    round_to<E>(p, s);
  }
  barriers.v.wait_until_full(n_tiles - 1);
  ptx::wgmma_fence(o, p);
  multiply_by_values<E, T>(o, p, tiles.v(n_tiles - 1));
  ptx::wgmma_wait<0>(o);
}

template <class E, int head_dim>
__global__ void __launch_bounds__(Tile<head_dim>::threads, 1)
    attention_kernel(const __grid_constant__ Maps maps, float* lse, Problem problem, float scale,
                     int blocks_of_head) {
  using T = Tile<head_dim>;
  REPRISE_DYNAMIC_SHARED(bytes);
  REPRISE_SHARED(Barriers<T::slots>, barriers, [1]);
  const SharedTiles<T> tiles{bytes};
  const auto place = device::head_tile_of(blockIdx.x, blocks_of_head, int(problem.heads));
  const HeadAt head{int(place.b), int(place.h)};
  const HeadAt kv_head{head.b, head.h / int(problem.heads / problem.kv_heads)};
  const int first_query = place.tile * T::queries;
  const int n_tiles =
      device::ceil_div(device::QueryRange(problem, first_query, T::queries).some_see, T::keys);
  if (threadIdx.x == 0) barriers[0].init(T::consumers * 4);
  __syncthreads();

  if (threadIdx.x < 128) {
    ptx::lower_registers<24>();
    if (threadIdx.x == 0 && n_tiles > 0)
      produce(tiles, barriers[0], &maps.q, &maps.k, &maps.v, first_query, head, kv_head, n_tiles);
    return;
  }
  ptx::raise_registers<240>();
  const int group = int(threadIdx.x) / 128 - 1;
  const Rows rows(problem, first_query + group * T::group_queries);
  Softmax softmax{scale};
  float o[head_dim / 2] = {};  // (64, head_dim)
  if (n_tiles > 0) consume<E, T>(tiles, barriers[0], rows, n_tiles, tiles.q(group), softmax, o);

  softmax.finish();
  float inverse[2];
  for (int r = 0; r < 2; ++r) {
    inverse[r] = softmax.sum[r] == 0 ? 0.0f : 1 / softmax.sum[r];
    const int query = rows.first + rows.own[r];
    const int64_t row = (int64_t(head.b) * problem.heads + head.h) * problem.queries + query;
    if (lse != nullptr && threadIdx.x % 4 == 0 && query < rows.queries)
      lse[row] = softmax.max[r] * (scale * float(device::ln_2)) + logf(softmax.sum[r]);
  }
  multiply_rows(o, inverse);
  write_out<E, T>(o, tiles.q(group), &maps.out, rows, head, 1 + group);
}

/// Tiles of `rows` rows and 64 columns of a view (B, H, T, D).
ptx::TensorTiles tiles_of(const TensorView& view, int rows) {
  ptx::TensorTiles tiles{.data = view.data,
                         .rank = 4,
                         .sizes = {view.size(3), view.size(2), view.size(1), view.size(0)},
                         .strides = {view.stride(3), view.stride(2), view.stride(1), view.stride(0)},
                         .box = {64, rows, 1, 1},
                         .swizzle = ptx::Swizzle::bytes128};
  for (int i = 1; i < 4; ++i)
    if (tiles.sizes[i] == 1) tiles.strides[i] = 8;  // never taken
  return tiles;
}

/// Whether TMA reaches the view. It is not known to take strides of 0.
bool fits(const TensorView& view) {
  const ptx::TensorTiles tiles = tiles_of(view, 64);
  return view.stride(3) == 1 && view.stride(0) != 0 && view.stride(1) != 0 && view.stride(2) != 0 &&
         ptx::defect_of(tiles) == nullptr;
}

bool is_hopper(Device device) {
  const auto& properties = cuda::properties(device.index);
  return properties.major == 9 && properties.minor == 0;
}

template <class E, int head_dim>
void launch_kernel(const Stream& stream, const Problem& problem, const AttentionArguments& x) {
  using T = Tile<head_dim>;
  const Maps maps{make_tensor_map(tiles_of(x.q, T::group_queries)), make_tensor_map(tiles_of(x.k, T::keys)),
                  make_tensor_map(tiles_of(x.v, T::keys)),
                  make_tensor_map(tiles_of(x.out, T::group_queries))};
  const int64_t blocks = device::ceil_div<int64_t>(problem.queries, T::queries);
  simt::launch({.name = "attention_sm90",
                .grid = unsigned(problem.batch * problem.heads * blocks),
                .block = T::threads,
                .shared_bytes = T::shared_bytes,
                .stream = stream},
               attention_kernel<E, head_dim>, maps, device::data_of<float>(x.lse), problem,
               float(problem.scale * device::log2_e), int(blocks));
}

bool forward(const Stream& stream, const AttentionArguments& x) {
  const Problem problem = attention_detail::check_attention("attention", x);
  const bool takes = (x.q.dtype == DType::bf16 || x.q.dtype == DType::f16) &&
                     (problem.head_dim == 64 || problem.head_dim == 128) && problem.dropout == 0 &&
                     problem.scale > 0 && problem.keys > 0 && !x.mask && is_hopper(stream.device());
  if (!takes || !fits(x.q) || !fits(x.k) || !fits(x.v) || !fits(x.out)) return false;
  auto run = [&]<class E>() {
    if (problem.head_dim == 64)
      launch_kernel<E, 64>(stream, problem, x);
    else
      launch_kernel<E, 128>(stream, problem, x);
  };
  x.q.dtype == DType::bf16 ? run.template operator()<__nv_bfloat16>() : run.template operator()<__half>();
  return true;
}

const AttentionOnBackend on_sm90{AttentionBackend::sm90, {.forward = forward}};

}  // namespace
}  // namespace reprise::kernels::sm90
