// Attention forward by tensor cores (Dao 2023, FlashAttention-2), for bf16 and f16:
//   S = scale Q K^T + mask,  P = exp(S - max),  O = dropout(P) V / rowsum(P),  lse = max + log(rowsum(P))
// A block takes 128 queries of a head, a warp 32 of them, and goes over the keys that they see in tiles of
// 64: the maximum and the sum of a row are kept up to date and O is rescaled as they change (online softmax,
// in base 2).
//
// Per head: 4 T_q T_k D operations, half if causal, and 2 (T_q + T_k) D elements that must move. The tiles of
// K and V are read again by each block, out of L2; the next tile is on its way (cp.async) while one is
// multiplied. At head size 64 shared memory holds Q and two tiles each of K and V, 48 KiB.
#include "reprise/kernels/attention/cuda.h"
#include "reprise/kernels/attention/dropout.cuh"

namespace reprise::kernels::attention_detail {
namespace {

using namespace device;
namespace ptx = simt::ptx;

template <int width, Extra extra>
struct ForwardTile {
  static constexpr int warps = 4, threads = warps * 32;
  static constexpr int row_tiles =
      extra == Extra::none ? 2 : 1;  // of 16 queries, per warp; extras need registers
  static constexpr int warp_queries = 16 * row_tiles, queries = warps * warp_queries;
  static constexpr int keys = width <= 64 ? 64 : 32;
  static constexpr bool keeps_q =
      row_tiles * width <= 64;  // in registers; else Q is read again for each tile
  static constexpr size_t shared_bytes = size_t(queries + 4 * keys) * width * 2;
};

template <class T>
struct ForwardArguments {
  Heads<const T> q, k, v;
  Heads<T> out;
  float* lse;  // or null
  RowAccess access;
  Dropout dropout;
  Mask<T, float> mask;
  float scale;  // in base 2
};

/// Maximum (of unscaled scores) and sum so far of rows g and g + 8 of each row tile. The sum is of this
/// lane's columns.
template <int M>
struct SoftmaxRows {
  float max[M][2], sum[M][2];

  __device__ SoftmaxRows() {
    for (int m = 0; m < M; ++m)
      for (int r = 0; r < 2; ++r) max[m][r] = -INFINITY, sum[m][r] = 0;
  }

  /// Turns scores into probabilities up to the sum, and rescales what `out` has summed up.
  template <int N, int D>
  __device__ __forceinline__ void add(float (&s)[M][N][4], float (&out)[M][D][4], float scale) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float largest = max[m][r];
#pragma unroll
        for (int n = 0; n < N; ++n) largest = fmaxf(largest, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(full_warp, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(full_warp, largest, 2));
        // A row that has seen no key yet keeps the maximum -inf; shifting it by 0 avoids -inf - -inf. The
        // rescaling is exactly 1 where the maximum stays, which max * scale - shift in one rounding is not.
        const float base = largest == -INFINITY ? 0.0f : largest, shift = base * scale;
        const float rescale = ptx::exp2_approx((max[m][r] - base) * scale);
        max[m][r] = largest;
        sum[m][r] *= rescale;
#pragma unroll
        for (int d = 0; d < D; ++d) out[m][d][2 * r] *= rescale, out[m][d][2 * r + 1] *= rescale;
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
          for (int e = 2 * r; e < 2 * r + 2; ++e) {
            s[m][n][e] = ptx::exp2_approx(fmaf(s[m][n][e], scale, -shift));
            sum[m][r] += s[m][n][e];
          }
      }
  }

  /// Sums over all columns.
  __device__ __forceinline__ void finish() {
    for (int m = 0; m < M; ++m)
      for (int r = 0; r < 2; ++r) {
        sum[m][r] += __shfl_xor_sync(full_warp, sum[m][r], 1);
        sum[m][r] += __shfl_xor_sync(full_warp, sum[m][r], 2);
      }
  }
};

/// `lse` is the whole head's.
template <int M>
__device__ __forceinline__ void write_lse(const SoftmaxRows<M>& rows, float scale, QueryRange queries,
                                          float* lse) {
  if (threadIdx.x % 4 != 0) return;
  for (int m = 0; m < M; ++m)
    for (int r = 0; r < 2; ++r) {
      const int query = queries.first + m * 16 + fragment_row(2 * r);
      if (query < queries.end) lse[query] = rows.max[m][r] * (scale * float(ln_2)) + logf(rows.sum[m][r]);
    }
}

template <class T, int width, Extra extra>
__global__ void __launch_bounds__(ForwardTile<width, extra>::threads, 2)
    attention_forward_kernel(ForwardArguments<T> args, Problem problem, int blocks_of_head) {
  using Tile = ForwardTile<width, extra>;
  constexpr int M = Tile::row_tiles, N = Tile::keys / 8;
  constexpr bool masked = extra == Extra::mask;
  REPRISE_DYNAMIC_SHARED(bytes);
  const SharedTile<T, width> q_tile{reinterpret_cast<T*>(bytes)};  // (queries, width)
  const PairedTiles<T, width, Tile::keys, Tile::threads> kv_tiles{q_tile.from_row(Tile::queries)};

  const HeadTile head = head_tile_of(blockIdx.x, blocks_of_head, int(problem.heads));
  const int kv_head = head.h / int(problem.heads / problem.kv_heads);
  const auto q = args.q.at(head.b, head.h), k = args.k.at(head.b, kv_head), v = args.v.at(head.b, kv_head);
  const int64_t head_row = (head.b * problem.heads + head.h) * problem.queries;  // among all heads' queries
  const QueryRange block(problem, head.tile * Tile::queries, Tile::queries);
  const int warp_row = int(threadIdx.x) / 32 * Tile::warp_queries;
  const QueryRange warp(problem, block.first + warp_row, Tile::warp_queries);
  const SharedTile<T, width> own_tile = q_tile.from_row(warp_row);

  const int tiles = ceil_div(block.some_see, Tile::keys), keys = int(problem.keys);
  if (tiles > 0) {
    load_rows<Tile::queries, Tile::threads>(q_tile, q, block.first, block.end, args.access);
    kv_tiles.load(0, k, v, 0, keys, args.access);
  }
  const HeadMask<T, float> mask = args.mask.at(head.b, head.h);
  const float scale = masked ? 1.0f : args.scale;  // of scores as `rows` takes them
  SoftmaxRows<M> rows;
  float out[M][width / 8][4];
  set_zero(out);
  OwnRows<T, width, M, Tile::keeps_q> own_q;
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::cp_async_wait<0>();
    __syncthreads();  // the pair is here, and no thread reads the other any more
    const int first_key = tile * Tile::keys;
    if (tile + 1 < tiles) kv_tiles.load(tile + 1, k, v, first_key + Tile::keys, keys, args.access);
    if (first_key >= warp.some_see) continue;
    if (!Tile::keeps_q || tile == 0) own_q.take(own_tile);
    float s[M][N][4];
    if constexpr (masked) {
      const unsigned seen = seen_keys<N, false>(mask, problem, warp.first, first_key);
      if (!__any_sync(full_warp, seen != 0)) continue;
      multiply_rows_by_rows(own_q, kv_tiles.first(tile), s);
      add_mask<N, false>(mask, seen, warp.first, first_key, args.scale, s);
    } else {
      multiply_rows_by_rows(own_q, kv_tiles.first(tile), s);
      if (first_key + Tile::keys > warp.all_see)
        each_hidden_key<M, N>(problem, warp.first, first_key,
                              [&](int m, int n, int e) { s[m][n][e] = -INFINITY; });
    }
    rows.add(s, out, scale);
    if (extra == Extra::dropout || (masked && args.dropout))
      drop_query_rows(args.dropout, head_row + warp.first, first_key, s);
    add_product(s, kv_tiles.second(tile), out);
  }

  rows.finish();
  if (args.lse != nullptr) write_lse(rows, scale, warp, args.lse + head_row);
  write_sums(out, own_tile, args.out.at(head.b, head.h), warp.first, warp.end, args.access,
             [&](int m, int r) { return rows.sum[m][r] == 0 ? 0.0f : args.dropout.kept / rows.sum[m][r]; });
}

template <int width, Extra extra, class T>
void launch_forward(const Stream& stream, const Problem& problem, const ForwardArguments<T>& args) {
  using Tile = ForwardTile<width, extra>;
  const int64_t blocks = ceil_div<int64_t>(problem.queries, Tile::queries);
  simt::launch({.name = "attention",
                .grid = unsigned(problem.batch * problem.heads * blocks),
                .block = Tile::threads,
                .shared_bytes = Tile::shared_bytes,
                .stream = stream},
               attention_forward_kernel<T, width, extra>, args, problem, int(blocks));
}

template <class T>
void forward(const Stream& stream, const Problem& problem, const AttentionArguments& views) {
  const bool by_chunks = all_rows_fit_packs({&views.q, &views.k, &views.v, &views.out});
  const ForwardArguments<Element<T>> args{
      const_heads_of<T>(views.q), const_heads_of<T>(views.k),    const_heads_of<T>(views.v),
      heads_of<T>(views.out),     data_of<float>(views.lse),     {int(problem.head_dim), by_chunks},
      Dropout(problem),           mask_of<T, float>(views.mask), float(problem.scale * log2_e)};
  dispatch_tile_width(problem.head_dim, [&]<int width>() {
    if (views.mask)
      launch_forward<width, Extra::mask>(stream, problem, args);
    else if (problem.dropout > 0)
      launch_forward<width, Extra::dropout>(stream, problem, args);
    else
      launch_forward<width, Extra::none>(stream, problem, args);
  });
}

}  // namespace

void forward_by_tensor_cores(const Stream& stream, const Problem& problem, const AttentionArguments& views) {
  if (views.q.dtype == DType::bf16)
    forward<BFloat16>(stream, problem, views);
  else
    forward<Float16>(stream, problem, views);
}

}  // namespace reprise::kernels::attention_detail
