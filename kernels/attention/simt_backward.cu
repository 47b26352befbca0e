// Attention backward by plain arithmetic, for f32 and f64, and for what the tensor-core kernels do not take.
// With delta = rowsum(dO * O):
//   P = exp(scale Q K^T + mask - lse),  dP = dropout(dO V^T),  dS = P * (dP - delta),
//   dQ = scale dS K,  dK = scale dS^T Q,  dV = dropout(P)^T dO
// One kernel for queries (delta and dQ) and one for keys (dK and dV, of all heads that share them), as in
// mma_backward.cu; blocks take 64 rows and 64 columns of the result and go over tiles of 64. Per head:
// 14 T_q T_k D operations, half if causal, where D is at most 64; 4 (T_q + T_k) D elements must move. Shared
// memory: 42.5 KiB for f32, 85 KiB for f64.
#include "reprise/kernels/attention/cuda.h"
#include "reprise/kernels/attention/simt.cuh"
#include "reprise/kernels/cuda/workspace.h"

namespace reprise::kernels::attention_detail {
namespace {

using namespace device;

template <class T, class C>
struct BackwardArguments {
  Heads<const T> dout, q, k, v, out;
  const C* lse;  // (B, H, T_q)
  C* delta;      // the same
  Heads<T> dq, dk, dv;
  Dropout dropout;
  Mask<T, C> mask;
  C scale, kept;
};

template <class C>
constexpr size_t shared_bytes = (simt_chunks_size + 2 * simt_tile_size) * sizeof(C);

/// What is subtracted from scores. A query that sees no key has the lse -inf; its probabilities are to be 0.
template <class C>
__device__ __forceinline__ C shift_of(C lse) {
  return lse == C(-INFINITY) ? C(INFINITY) : lse;
}

/// P (dropped as for dV) and dS from a score, which is to be multiplied by `scale`, and its dP.
template <class T, class C>
__device__ __forceinline__ void differentiate(const BackwardArguments<T, C>& args, C scale, bool visible,
                                              bool kept, C shift, C delta, C& s, C& dp) {
  const C p = visible ? std::exp(s * scale - shift) : C(0);
  dp = visible ? p * ((kept ? dp * args.kept : C(0)) - delta) : C(0);
  s = kept ? p * args.kept : C(0);
}

/// Scales this thread's scores and adds the mask that lies in `tile`, if there is one. What they are to be multiplied by
/// from then on.
template <class T, class C>
__device__ __forceinline__ C add_mask(const BackwardArguments<T, C>& args, const C* tile, C (&s)[4][4]) {
  if (!args.mask) return args.scale;
  simt_each_element([&](int i, int j) { s[i][j] *= args.scale; });
  simt_add_mask(tile, s);
  return C(1);
}

/// rowsum(dO * O) of this thread's row i, in all 16 threads of the row.
template <class C, class T>
__device__ __forceinline__ C delta_of(HeadRows<const T> dout, HeadRows<const T> out, int query, int end,
                                      int head_dim) {
  C sum = 0;
  for (int d = int(threadIdx.x) % 16; query < end && d < head_dim; d += 16)
    sum += to<C>(dout[query][d]) * to<C>(out[query][d]);
  return simt_row_reduce(Sum{}, sum);
}

template <class T, class C>
__global__ void __launch_bounds__(simt_threads, 1)
    attention_simt_backward_q_kernel(BackwardArguments<T, C> args, Problem problem, int blocks_of_head,
                                     int slices) {
  REPRISE_DYNAMIC_SHARED(bytes);
  C* chunks = reinterpret_cast<C*>(bytes);
  C* ds_tile = chunks + simt_chunks_size;  // dS^T (64, 64)

  const int slice = int(blockIdx.x % unsigned(slices)), column = slice * simt_tile;
  const HeadTile head = head_tile_of(blockIdx.x / unsigned(slices), blocks_of_head, int(problem.heads));
  const int kv_head = head.h / int(problem.heads / problem.kv_heads);
  const int64_t head_row = (head.b * problem.heads + head.h) * problem.queries;  // among all heads' queries
  const int head_dim = int(problem.head_dim), keys = int(problem.keys);
  const QueryRange queries(problem, head.tile * simt_tile, simt_tile);
  const SimtRows<T> q{args.q.at(head.b, head.h), queries.first, queries.end, head_dim};
  const SimtRows<T> dout{args.dout.at(head.b, head.h), queries.first, queries.end, head_dim};
  SimtRows<T> k{args.k.at(head.b, kv_head), 0, keys, head_dim},
      v{args.v.at(head.b, kv_head), 0, keys, head_dim};

  C shift[4], delta[4], dq[4][4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int query = queries.first + simt_row_of(i);
    delta[i] = delta_of<C>(dout.rows, args.out.at(head.b, head.h), query, queries.end, head_dim);
    shift[i] = query < queries.end ? shift_of(args.lse[head_row + query]) : C(0);
    if (query < queries.end && slice == 0 && threadIdx.x % 16 == 0) args.delta[head_row + query] = delta[i];
  }
  simt_set_zero(dq);
  const HeadMask<T, C> mask = args.mask.at(head.b, head.h);
  for (int key = 0; key < queries.some_see; key += simt_tile) {
    if (args.mask && !simt_load_mask<false>(mask, problem, queries.first, key, ds_tile)) continue;
    k.first = v.first = key;
    C s[4][4], dp[4][4];
    simt_multiply_rows(q, k, chunks, s);
    simt_multiply_rows(dout, v, chunks, dp);
    const C scale = add_mask(args, ds_tile, s);
    const unsigned keeps =
        args.dropout ? simt_keeps_of_query_rows(args.dropout, head_row + queries.first, key) : ~0u;
    simt_each_element([&](int i, int j) {
      const int query = queries.first + simt_row_of(i);
      const bool visible = query < queries.end && key + simt_column_of(j) < int(problem.visible_keys(query));
      differentiate(args, scale, visible, simt_bit(keeps, i, j), shift[i], delta[i], s[i][j], dp[i][j]);
    });
    simt_store_transposed(dp, ds_tile);
    simt_add_product(ds_tile, k, column, chunks, dq);
  }
  simt_write(dq, args.dq.at(head.b, head.h), queries.first, queries.end, column, head_dim,
             [&](int) { return args.scale; });
}

template <class T, class C>
__global__ void __launch_bounds__(simt_threads, 1)
    attention_simt_backward_kv_kernel(BackwardArguments<T, C> args, Problem problem, int blocks_of_head,
                                      int slices) {
  REPRISE_DYNAMIC_SHARED(bytes);
  C* chunks = reinterpret_cast<C*>(bytes);
  C* p_tile = chunks + simt_chunks_size;  // rows are keys, so P^T transposed: (64 queries, 64 keys)
  C* ds_tile = p_tile + simt_tile_size;   // the same

  const int column = int(blockIdx.x % unsigned(slices)) * simt_tile;
  const HeadTile head = head_tile_of(blockIdx.x / unsigned(slices), blocks_of_head, int(problem.kv_heads));
  const int group = int(problem.heads / problem.kv_heads), head_dim = int(problem.head_dim);
  const int keys = int(problem.keys), queries = int(problem.queries);
  const int first_key = (blocks_of_head - 1 - head.tile) * simt_tile;
  const int shift = problem.causal ? keys - queries : keys;  // query i sees keys up to i + shift
  const SimtRows<T> k{args.k.at(head.b, head.h), first_key, keys, head_dim};
  const SimtRows<T> v{args.v.at(head.b, head.h), first_key, keys, head_dim};

  C dk[4][4], dv[4][4];
  simt_set_zero(dk), simt_set_zero(dv);
  for (int h = head.h * group; h < (head.h + 1) * group; ++h)
    for (int first_query = max(first_key - shift, 0) / simt_tile * simt_tile; first_query < queries;
         first_query += simt_tile) {
      if (args.mask &&
          !simt_load_mask<true>(args.mask.at(head.b, h), problem, first_query, first_key, p_tile))
        continue;
      const int64_t head_row = (head.b * problem.heads + h) * problem.queries;  // among all heads' queries
      const SimtRows<T> q{args.q.at(head.b, h), first_query, queries, head_dim};
      const SimtRows<T> dout{args.dout.at(head.b, h), first_query, queries, head_dim};
      C s[4][4], dp[4][4];
      simt_multiply_rows(k, q, chunks, s);
      simt_multiply_rows(v, dout, chunks, dp);
      const C scale = add_mask(args, p_tile, s);
      const unsigned keeps =
          args.dropout ? simt_keeps_of_key_rows(args.dropout, head_row + first_query, first_key) : ~0u;
      simt_each_element([&](int i, int j) {
        const int query = first_query + simt_column_of(j), key = first_key + simt_row_of(i);
        const bool visible = query < queries && key < keys && key <= query + shift;
        const C shift_by = query < queries ? shift_of(args.lse[head_row + query]) : C(0);
        const C delta = query < queries ? args.delta[head_row + query] : C(0);
        differentiate(args, scale, visible, simt_bit(keeps, i, j), shift_by, delta, s[i][j], dp[i][j]);
      });
      simt_store_transposed(s, p_tile);
      simt_store_transposed(dp, ds_tile);
      simt_add_product(p_tile, dout, column, chunks, dv);
      simt_add_product(ds_tile, q, column, chunks, dk);
    }
  simt_write(dv, args.dv.at(head.b, head.h), first_key, keys, column, head_dim, [](int) { return C(1); });
  simt_write(dk, args.dk.at(head.b, head.h), first_key, keys, column, head_dim,
             [&](int) { return args.scale; });
}

template <class T>
void backward(const Stream& stream, const Problem& problem, const AttentionBackwardArguments& views) {
  using C = Accumulator<T>;
  const Workspace delta(stream, size_t(problem.batch * problem.heads * problem.queries) * sizeof(C));
  const BackwardArguments<Element<T>, C> args{const_heads_of<T>(views.dout),
                                              const_heads_of<T>(views.q),
                                              const_heads_of<T>(views.k),
                                              const_heads_of<T>(views.v),
                                              const_heads_of<T>(views.out),
                                              data_of<C>(views.lse),
                                              delta.as<C>(),
                                              heads_of<T>(views.dq),
                                              heads_of<T>(views.dk),
                                              heads_of<T>(views.dv),
                                              Dropout(problem),
                                              mask_of<T, C>(views.mask),
                                              C(problem.scale),
                                              C(1 / (1 - problem.dropout))};
  const int64_t slices = std::max<int64_t>(ceil_div<int64_t>(problem.head_dim, simt_tile), 1);
  auto launch = [&](const char* name, auto kernel, int64_t heads, int64_t rows) {
    const int64_t blocks = ceil_div<int64_t>(rows, simt_tile);
    if (heads * blocks == 0) return;
    simt::launch({.name = name,
                  .grid = unsigned(problem.batch * heads * blocks * slices),
                  .block = simt_threads,
                  .shared_bytes = shared_bytes<C>,
                  .stream = stream},
                 kernel, args, problem, int(blocks), int(slices));
  };
  launch("attention_simt_backward_q", attention_simt_backward_q_kernel<Element<T>, C>, problem.heads,
         problem.queries);
  launch("attention_simt_backward_kv", attention_simt_backward_kv_kernel<Element<T>, C>, problem.kv_heads,
         problem.keys);
}

}  // namespace

void backward_by_threads(const Stream& stream, const Problem& problem,
                         const AttentionBackwardArguments& views) {
  dispatch_floating(views.q.dtype, "attention_backward",
                    [&]<class T>() { backward<T>(stream, problem, views); });
}

}  // namespace reprise::kernels::attention_detail
