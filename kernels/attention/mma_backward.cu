// Attention backward by tensor cores (Dao 2023, FlashAttention-2), for bf16 and f16; delta = rowsum(dO * O):
//   P = exp(scale Q K^T + mask - lse),  dP = dropout(dO V^T),  dS = P * (dP - delta),
//   dQ = scale dS K,  dK = scale dS^T Q,  dV = dropout(P)^T dO
// Two kernels, each of which sums in registers, in a fixed order: no atomics, the same bits in every run. The
// first takes blocks of queries and goes over their keys: delta and dQ. The second takes blocks of keys and
// goes over the queries that see them, of all heads that share the keys: dK and dV. It computes the scores
// transposed, K Q^T, so that P^T and dS^T are again operands as they lie in registers.
//
// Per head: 14 T_q T_k D operations, half if causal, of which 4 compute P and dP a second time: the price of
// no dQ that is added to from many blocks. 4 (T_q + T_k) D elements must move. At head size 64 a block of the
// first has 128 queries, tiles of 32 keys and 48 KiB of shared memory; of the second 128 keys, tiles of 32
// queries and 48.5 KiB.
#include "reprise/kernels/attention/cuda.h"
#include "reprise/kernels/attention/dropout.cuh"
#include "reprise/kernels/cuda/workspace.h"

namespace reprise::kernels::attention_detail {
namespace {

using namespace device;
namespace ptx = simt::ptx;

template <class T>
struct BackwardArguments {
  Heads<const T> dout, q, k, v, out;
  const float* lse;  // (B, H, T_q)
  float* delta;      // the same
  Heads<T> dq, dk, dv;
  RowAccess access;
  Dropout dropout;
  Mask<T, float> mask;
  float scale, scale_2;  // the latter in base 2
};

/// In base 2, as it is subtracted from scores. A query that sees no key has the lse -inf; its probabilities
/// are to be 0.
__device__ __forceinline__ float shift_of(float lse) {
  return lse == -INFINITY ? INFINITY : lse * float(log2_e);
}

/// Turns a score, which is to be multiplied by `scale_2`, into its probability, and its dP into dS.
template <class T>
__device__ __forceinline__ void differentiate(const BackwardArguments<T>& args, float scale_2, float shift,
                                              float delta, float& s, float& dp) {
  s = ptx::exp2_approx(fmaf(s, scale_2, -shift));
  dp = s * fmaf(dp, args.dropout.kept, -delta);
}

template <int width, Extra extra>
struct QueryTile {
  static constexpr int warps = 4, threads = warps * 32;
  static constexpr int row_tiles = width <= 64 && extra == Extra::none ? 2 : 1;  // of 16 queries, per warp
  static constexpr int warp_queries = 16 * row_tiles, queries = warps * warp_queries;
  static constexpr int keys = 32;
  static constexpr bool keeps_rows = row_tiles * width <= 64;  // of Q and dO, in registers
  static constexpr size_t shared_bytes = size_t(2 * queries + 4 * keys) * width * 2;
};

/// What backward needs of rows g and g + 8 of each row tile. Rows past the end get the probability 0.
template <int M>
struct RowNumbers {
  float shift[M][2], delta[M][2];
};

/// The dot product of two chunks of which `count` elements are there.
template <class T>
__device__ __forceinline__ float dot(const T* a, const T* b, int count, bool by_chunks) {
  float sum = 0;
  if (by_chunks) {
    const auto left = load_pack<chunk_size>(a), right = load_pack<chunk_size>(b);
#pragma unroll
    for (int e = 0; e < chunk_size; ++e) sum = fmaf(to<float>(left.at[e]), to<float>(right.at[e]), sum);
  } else {
    for (int e = 0; e < min(count, chunk_size); ++e) sum = fmaf(to<float>(a[e]), to<float>(b[e]), sum);
  }
  return sum;
}

/// Reads lse and computes delta, which the kernel for keys will read. `lse` and `delta` are the whole head's.
template <int M, class T>
__device__ __forceinline__ RowNumbers<M> row_numbers(QueryRange queries, HeadRows<const T> dout,
                                                     HeadRows<const T> out, const float* lse, float* delta,
                                                     RowAccess access) {
  RowNumbers<M> numbers;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int query = queries.first + m * 16 + fragment_row(2 * r), t = int(threadIdx.x) % 4;
      const bool valid = query < queries.end;
      float sum = 0;
      for (int column = t * chunk_size; valid && column < access.head_dim; column += 4 * chunk_size)
        sum += dot(dout[query] + column, out[query] + column, access.head_dim - column, access.by_chunks);
      sum += __shfl_xor_sync(full_warp, sum, 1);
      sum += __shfl_xor_sync(full_warp, sum, 2);
      if (valid && t == 0) delta[query] = sum;
      numbers.delta[m][r] = sum;
      numbers.shift[m][r] = valid ? shift_of(lse[query]) : INFINITY;
    }
  return numbers;
}

template <class T, int width, Extra extra>
__global__ void __launch_bounds__(QueryTile<width, extra>::threads)
    attention_backward_q_kernel(BackwardArguments<T> args, Problem problem, int blocks_of_head) {
  using Tile = QueryTile<width, extra>;
  constexpr int M = Tile::row_tiles, N = Tile::keys / 8;
  constexpr bool masked = extra == Extra::mask;
  REPRISE_DYNAMIC_SHARED(bytes);
  const SharedTile<T, width> q_tile{reinterpret_cast<T*>(bytes)};         // (queries, width)
  const SharedTile<T, width> dout_tile = q_tile.from_row(Tile::queries);  // (queries, width)
  const PairedTiles<T, width, Tile::keys, Tile::threads> kv_tiles{dout_tile.from_row(Tile::queries)};

  const HeadTile head = head_tile_of(blockIdx.x, blocks_of_head, int(problem.heads));
  const int kv_head = head.h / int(problem.heads / problem.kv_heads);
  const auto k = args.k.at(head.b, kv_head), v = args.v.at(head.b, kv_head);
  const auto dout = args.dout.at(head.b, head.h);
  const int64_t head_row = (head.b * problem.heads + head.h) * problem.queries;  // among all heads' queries
  const QueryRange block(problem, head.tile * Tile::queries, Tile::queries);
  const int warp_row = int(threadIdx.x) / 32 * Tile::warp_queries;
  const QueryRange warp(problem, block.first + warp_row, Tile::warp_queries);

  const int tiles = ceil_div(block.some_see, Tile::keys), keys = int(problem.keys);
  if (tiles > 0) {
    load_rows<Tile::queries, Tile::threads>(q_tile, args.q.at(head.b, head.h), block.first, block.end,
                                            args.access);
    load_rows<Tile::queries, Tile::threads>(dout_tile, dout, block.first, block.end, args.access);
    kv_tiles.load(0, k, v, 0, keys, args.access);
  }
  const RowNumbers<M> rows = row_numbers<M>(warp, dout, args.out.at(head.b, head.h), args.lse + head_row,
                                            args.delta + head_row, args.access);
  const HeadMask<T, float> mask = args.mask.at(head.b, head.h);
  const float scale_2 = masked ? 1.0f : args.scale_2;  // of scores as `differentiate` takes them
  OwnRows<T, width, M, Tile::keeps_rows> own_q, own_dout;
  float dq[M][width / 8][4];
  set_zero(dq);
  for (int tile = 0; tile < tiles; ++tile) {
    ptx::cp_async_wait<0>();
    __syncthreads();  // the pair is here, and no thread reads the other any more
    const int first_key = tile * Tile::keys;
    if (tile + 1 < tiles) kv_tiles.load(tile + 1, k, v, first_key + Tile::keys, keys, args.access);
    if (first_key >= warp.some_see) continue;
    if (!Tile::keeps_rows || tile == 0)
      own_q.take(q_tile.from_row(warp_row)), own_dout.take(dout_tile.from_row(warp_row));
    unsigned seen = 0;
    if constexpr (masked) {
      seen = seen_keys<N, false>(mask, problem, warp.first, first_key);
      if (!__any_sync(full_warp, seen != 0)) continue;
    }
    float s[M][N][4], dp[M][N][4];
    multiply_rows_by_rows(own_q, kv_tiles.first(tile), s);
    multiply_rows_by_rows(own_dout, kv_tiles.second(tile), dp);
    if constexpr (masked) add_mask<N, false>(mask, seen, warp.first, first_key, args.scale_2, s);
    if (!masked && first_key + Tile::keys > warp.all_see)
      each_hidden_key<M, N>(problem, warp.first, first_key, [&](int m, int n, int e) {
        s[m][n][e] = -INFINITY;
        dp[m][n][e] = 0;
      });
    if (extra == Extra::dropout || (masked && args.dropout))
      drop_query_rows(args.dropout, head_row + warp.first, first_key, dp);
    each_element<M, N>([&](int m, int n, int e, int, int) {
      differentiate(args, scale_2, rows.shift[m][e / 2], rows.delta[m][e / 2], s[m][n][e], dp[m][n][e]);
    });
    add_product(dp, kv_tiles.first(tile), dq);
  }
  write_sums(dq, q_tile.from_row(warp_row), args.dq.at(head.b, head.h), warp.first, warp.end, args.access,
             [&](int, int) { return args.scale; });
}

template <int width, Extra extra>
struct KeyTile {
  static constexpr int warps = 4, threads = warps * 32;
  static constexpr int row_tiles = width <= 64 && extra == Extra::none ? 2 : 1;  // of 16 keys, per warp
  static constexpr int warp_keys = 16 * row_tiles, keys = warps * warp_keys;
  static constexpr int queries = 32;
  static constexpr size_t numbers_bytes = 2 * 2 * queries * sizeof(float);
  static constexpr size_t shared_bytes = size_t(2 * keys + 4 * queries) * width * 2 + numbers_bytes;
};

/// The queries that a block of keys goes over: tiles of the heads that share the keys, head by head.
template <class T, int width, Extra extra>
struct QuerySteps {
  using Tile = KeyTile<width, extra>;
  const BackwardArguments<T>& args;
  const Problem& problem;
  int b, first_head, first_tile, tiles_of_head;
  PairedTiles<T, width, Tile::queries, Tile::threads> tiles;  // Q and dO
  float* numbers;                                             // 2 of lse and delta, (queries) each

  __device__ int steps() const { return int(problem.heads / problem.kv_heads) * tiles_of_head; }
  __device__ int first_query(int step) const { return (first_tile + step % tiles_of_head) * Tile::queries; }
  __device__ int head(int step) const { return first_head + step / tiles_of_head; }
  /// The first of the step's queries, counted over all heads.
  __device__ int64_t row(int step) const {
    return (b * problem.heads + head(step)) * problem.queries + first_query(step);
  }
  __device__ const float* lse(int step) const { return numbers + step % 2 * 2 * Tile::queries; }
  __device__ const float* delta(int step) const { return lse(step) + Tile::queries; }

  __device__ __forceinline__ void load(int step) const {
    const int query = first_query(step), i = int(threadIdx.x) % Tile::queries;
    const bool valid = query + i < int(problem.queries);
    float* to = numbers + (step % 2 * 2) * Tile::queries + i;
    if (threadIdx.x < Tile::queries)
      ptx::cp_async4(to, args.lse + row(step) + i, valid);
    else if (threadIdx.x < 2 * Tile::queries)
      ptx::cp_async4(to + Tile::queries, args.delta + row(step) + i, valid);
    tiles.load(step, args.q.at(b, head(step)), args.dout.at(b, head(step)), query, int(problem.queries),
               args.access);
  }
};

/// P^T (dropped as for dV, if `drops`) and dS^T from scores, which are to be multiplied by `scale_2`, and dP^T. Rows are
/// keys from `key` on, columns the step's queries.
template <int M, int N, class T>
__device__ __forceinline__ void differentiate_key_rows(const BackwardArguments<T>& args, bool drops,
                                                       float scale_2, const float* lse, const float* delta,
                                                       int64_t query, int key, float (&s)[M][N][4],
                                                       float (&dp)[M][N][4]) {
#pragma unroll
  for (int n = 0; n < N; ++n) {
    float shift[2], column_delta[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      shift[i] = shift_of(lse[n * 8 + fragment_column(i)]);
      column_delta[i] = delta[n * 8 + fragment_column(i)];
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const unsigned keeps = drops ? args.dropout.keeps_of_key_rows(query + n * 8, key + m * 16) : 0xfu;
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool kept = keeps >> e & 1u;
        if (!kept) dp[m][n][e] = 0;
        differentiate(args, scale_2, shift[e % 2], column_delta[e % 2], s[m][n][e], dp[m][n][e]);
        if (!kept) s[m][n][e] = 0;
      }
    }
  }
}

template <class T, int width, Extra extra>
__global__ void __launch_bounds__(KeyTile<width, extra>::threads)
    attention_backward_kv_kernel(BackwardArguments<T> args, Problem problem, int blocks_of_head) {
  using Tile = KeyTile<width, extra>;
  constexpr int M = Tile::row_tiles, N = Tile::queries / 8;
  constexpr bool masked = extra == Extra::mask;
  REPRISE_DYNAMIC_SHARED(bytes);
  const SharedTile<T, width> k_tile{reinterpret_cast<T*>(bytes)};   // (keys, width)
  const SharedTile<T, width> v_tile = k_tile.from_row(Tile::keys);  // (keys, width)
  const SharedTile<T, width> pairs = v_tile.from_row(Tile::keys);   // 4 of (queries, width)
  auto* numbers = reinterpret_cast<float*>(pairs.from_row(4 * Tile::queries).data);

  // The first tile of keys is seen by the most queries; it comes first.
  const HeadTile head = head_tile_of(blockIdx.x, blocks_of_head, int(problem.kv_heads));
  const int first_key = (blocks_of_head - 1 - head.tile) * Tile::keys;
  const int warp_row = int(threadIdx.x) / 32 * Tile::warp_keys, warp_key = first_key + warp_row;
  const int keys = int(problem.keys), queries = int(problem.queries);
  const int shift = problem.causal ? keys - queries : keys;  // query i sees keys up to i + shift
  const int first_tile = max(first_key - shift, 0) / Tile::queries;
  const QuerySteps<T, width, extra> steps{args,       problem,
                                          head.b,     head.h * int(problem.heads / problem.kv_heads),
                                          first_tile, ceil_div(queries, Tile::queries) - first_tile,
                                          {pairs},    numbers};
  const int count = queries > 0 ? steps.steps() : 0;
  if (count > 0) {
    load_rows<Tile::keys, Tile::threads>(k_tile, args.k.at(head.b, head.h), first_key, keys, args.access);
    load_rows<Tile::keys, Tile::threads>(v_tile, args.v.at(head.b, head.h), first_key, keys, args.access);
    steps.load(0);
  }
  OwnRows<T, width, M, false> own_k, own_v;
  own_k.take(k_tile.from_row(warp_row)), own_v.take(v_tile.from_row(warp_row));
  float dk[M][width / 8][4], dv[M][width / 8][4];
  set_zero(dk), set_zero(dv);
  for (int step = 0; step < count; ++step) {
    ptx::cp_async_wait<0>();
    __syncthreads();  // the pair is here, and no thread reads the other any more
    if (step + 1 < count) steps.load(step + 1);
    const int query = steps.first_query(step), last_query = min(query + Tile::queries, queries) - 1;
    if (warp_key >= keys || warp_key > last_query + shift) continue;
    unsigned seen = 0;
    const HeadMask<T, float> mask = args.mask.at(head.b, steps.head(step));
    if constexpr (masked) {
      seen = seen_keys<N, true>(mask, problem, query, warp_key);
      if (!__any_sync(full_warp, seen != 0)) continue;
    }
    float s[M][N][4], dp[M][N][4];
    multiply_rows_by_rows(own_k, steps.tiles.first(step), s);
    multiply_rows_by_rows(own_v, steps.tiles.second(step), dp);
    if constexpr (masked) add_mask<N, true>(mask, seen, query, warp_key, args.scale_2, s);
    if (!masked && warp_key + Tile::warp_keys - 1 > query + shift)
      each_element<M, N>([&](int m, int n, int e, int row, int column) {
        if (warp_key + row > query + column + shift) s[m][n][e] = -INFINITY, dp[m][n][e] = 0;
      });
    differentiate_key_rows(args, extra == Extra::dropout || (masked && args.dropout),
                           masked ? 1.0f : args.scale_2, steps.lse(step), steps.delta(step), steps.row(step),
                           warp_key, s, dp);
    add_product(s, steps.tiles.second(step), dv);
    add_product(dp, steps.tiles.first(step), dk);
  }
  write_sums(dv, v_tile.from_row(warp_row), args.dv.at(head.b, head.h), warp_key, keys, args.access,
             [&](int, int) { return args.dropout.kept; });
  write_sums(dk, k_tile.from_row(warp_row), args.dk.at(head.b, head.h), warp_key, keys, args.access,
             [&](int, int) { return args.scale; });
}

template <int width, Extra extra, class T>
void launch_backward(const Stream& stream, const Problem& problem, const BackwardArguments<T>& args) {
  using Queries = QueryTile<width, extra>;
  using Keys = KeyTile<width, extra>;
  const int64_t query_blocks = ceil_div<int64_t>(problem.queries, Queries::queries);
  const int64_t key_blocks = ceil_div<int64_t>(problem.keys, Keys::keys);
  if (query_blocks > 0)
    simt::launch({.name = "attention_backward_q",
                  .grid = unsigned(problem.batch * problem.heads * query_blocks),
                  .block = Queries::threads,
                  .shared_bytes = Queries::shared_bytes,
                  .stream = stream},
                 attention_backward_q_kernel<T, width, extra>, args, problem, int(query_blocks));
  if (key_blocks > 0)
    simt::launch({.name = "attention_backward_kv",
                  .grid = unsigned(problem.batch * problem.kv_heads * key_blocks),
                  .block = Keys::threads,
                  .shared_bytes = Keys::shared_bytes,
                  .stream = stream},
                 attention_backward_kv_kernel<T, width, extra>, args, problem, int(key_blocks));
}

template <class T>
void backward(const Stream& stream, const Problem& problem, const AttentionBackwardArguments& views) {
  const Workspace delta(stream, size_t(problem.batch * problem.heads * problem.queries) * sizeof(float));
  const bool by_chunks = all_rows_fit_packs(
      {&views.dout, &views.q, &views.k, &views.v, &views.out, &views.dq, &views.dk, &views.dv});
  const BackwardArguments<Element<T>> args{const_heads_of<T>(views.dout),
                                           const_heads_of<T>(views.q),
                                           const_heads_of<T>(views.k),
                                           const_heads_of<T>(views.v),
                                           const_heads_of<T>(views.out),
                                           data_of<float>(views.lse),
                                           delta.as<float>(),
                                           heads_of<T>(views.dq),
                                           heads_of<T>(views.dk),
                                           heads_of<T>(views.dv),
                                           {int(problem.head_dim), by_chunks},
                                           Dropout(problem),
                                           mask_of<T, float>(views.mask),
                                           float(problem.scale),
                                           float(problem.scale * log2_e)};
  dispatch_tile_width(problem.head_dim, [&]<int width>() {
    if (views.mask)
      launch_backward<width, Extra::mask>(stream, problem, args);
    else if (problem.dropout > 0)
      launch_backward<width, Extra::dropout>(stream, problem, args);
    else
      launch_backward<width, Extra::none>(stream, problem, args);
  });
}

}  // namespace

void backward_by_tensor_cores(const Stream& stream, const Problem& problem,
                              const AttentionBackwardArguments& views) {
  if (views.q.dtype == DType::bf16)
    backward<BFloat16>(stream, problem, views);
  else
    backward<Float16>(stream, problem, views);
}

}  // namespace reprise::kernels::attention_detail
