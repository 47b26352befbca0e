// Attention forward by plain arithmetic, for f32 and f64, and for what the tensor-core kernels do not take:
//   S = scale Q K^T + mask,  P = exp(S - max),  O = dropout(P) V / rowsum(P),  lse = max + log(rowsum(P))
// A block takes 64 queries of a head and 64 columns of O, and goes over the keys in tiles of 64 with a
// running maximum and sum. Per head: 4 T_q T_k D operations, half if causal, (2 D + 2 ceil(D / 64) D) T_q T_k
// in fact, as each slice of O computes the scores again; 2 (T_q + T_k) D elements must move. Shared memory:
// 25.5 KiB for f32, 51 KiB for f64.
#include "reprise/kernels/attention/cuda.h"
#include "reprise/kernels/attention/simt.cuh"

namespace reprise::kernels::attention_detail {
namespace {

using namespace device;

template <class T, class C>
struct ForwardArguments {
  Heads<const T> q, k, v;
  Heads<T> out;
  C* lse;  // or null
  Dropout dropout;
  Mask<T, C> mask;
  C scale, kept;
};

template <class C>
constexpr size_t shared_bytes = (simt_chunks_size + simt_tile_size) * sizeof(C);

/// Maximum and sum so far of this thread's four rows. All 16 threads of a row hold the same maximum; the sum
/// is of the thread's columns.
template <class C>
struct SoftmaxRows {
  C max[4], sum[4];

  __device__ SoftmaxRows() {
    for (int i = 0; i < 4; ++i) max[i] = -INFINITY, sum[i] = 0;
  }

  /// Turns scores into probabilities up to the sum, and rescales what `out` has summed up.
  __device__ __forceinline__ void add(C (&s)[4][4], C (&out)[4][4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      C largest = max[i];
#pragma unroll
      for (int j = 0; j < 4; ++j) largest = s[i][j] > largest ? s[i][j] : largest;
      largest = simt_row_reduce([](C a, C b) { return a > b ? a : b; }, largest);
      // A row that has seen no key yet keeps the maximum -inf; shifting it by 0 avoids -inf - -inf.
      const C shift = largest == C(-INFINITY) ? C(0) : largest, rescale = std::exp(max[i] - shift);
      C added = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) added += s[i][j] = std::exp(s[i][j] - shift);
      max[i] = largest;
      sum[i] = sum[i] * rescale + added;
#pragma unroll
      for (int j = 0; j < 4; ++j) out[i][j] *= rescale;
    }
  }

  /// Sums over all columns.
  __device__ __forceinline__ void finish() {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[i] = simt_row_reduce(Sum{}, sum[i]);
  }
};

/// Scales scores, and hides keys that their query does not see.
template <class C>
__device__ __forceinline__ void scale_scores(const Problem& problem, int first_query, int first_key, C scale,
                                             C (&s)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int end = int(problem.visible_keys(first_query + simt_row_of(i)));
#pragma unroll
    for (int j = 0; j < 4; ++j)
      s[i][j] = first_key + simt_column_of(j) < end ? s[i][j] * scale : C(-INFINITY);
  }
}

template <class T, class C>
__global__ void __launch_bounds__(simt_threads, 1)
    attention_simt_kernel(ForwardArguments<T, C> args, Problem problem, int blocks_of_head, int slices) {
  REPRISE_DYNAMIC_SHARED(bytes);
  C* chunks = reinterpret_cast<C*>(bytes);
  C* p_tile = chunks + simt_chunks_size;  // P^T (64, 64)

  const int slice = int(blockIdx.x % unsigned(slices)), column = slice * simt_tile;
  const HeadTile head = head_tile_of(blockIdx.x / unsigned(slices), blocks_of_head, int(problem.heads));
  const int kv_head = head.h / int(problem.heads / problem.kv_heads);
  const int64_t head_row = (head.b * problem.heads + head.h) * problem.queries;  // among all heads' queries
  const int head_dim = int(problem.head_dim), keys = int(problem.keys);
  const QueryRange queries(problem, head.tile * simt_tile, simt_tile);
  const SimtRows<T> q{args.q.at(head.b, head.h), queries.first, queries.end, head_dim};
  SimtRows<T> k{args.k.at(head.b, kv_head), 0, keys, head_dim},
      v{args.v.at(head.b, kv_head), 0, keys, head_dim};

  SoftmaxRows<C> rows;
  C out[4][4];
  simt_set_zero(out);
  const HeadMask<T, C> mask = args.mask.at(head.b, head.h);
  for (int key = 0; key < queries.some_see; key += simt_tile) {
    if (args.mask && !simt_load_mask<false>(mask, problem, queries.first, key, p_tile)) continue;
    k.first = v.first = key;
    C s[4][4];
    simt_multiply_rows(q, k, chunks, s);
    scale_scores(problem, queries.first, key, args.scale, s);
    if (args.mask) simt_add_mask(p_tile, s);
    rows.add(s, out);
    if (args.dropout) {
      const unsigned keeps = simt_keeps_of_query_rows(args.dropout, head_row + queries.first, key);
      simt_each_element([&](int i, int j) {
        if (!simt_bit(keeps, i, j)) s[i][j] = 0;
      });
    }
    simt_store_transposed(s, p_tile);
    simt_add_product(p_tile, v, column, chunks, out);
  }
  rows.finish();
  simt_write(out, args.out.at(head.b, head.h), queries.first, queries.end, column, head_dim,
             [&](int i) { return rows.sum[i] == 0 ? C(0) : args.kept / rows.sum[i]; });
  if (args.lse == nullptr || slice != 0 || threadIdx.x % 16 != 0) return;
  for (int i = 0; i < 4; ++i) {
    const int query = queries.first + simt_row_of(i);
    if (query < queries.end) args.lse[head_row + query] = rows.max[i] + std::log(rows.sum[i]);
  }
}

}  // namespace

void forward_by_threads(const Stream& stream, const Problem& problem, const AttentionArguments& views) {
  const int64_t blocks = ceil_div<int64_t>(problem.queries, simt_tile);
  const int64_t slices = std::max<int64_t>(ceil_div<int64_t>(problem.head_dim, simt_tile), 1);
  dispatch_floating(views.q.dtype, "attention", [&]<class T>() {
    using C = Accumulator<T>;
    const ForwardArguments<Element<T>, C> args{
        const_heads_of<T>(views.q), const_heads_of<T>(views.k), const_heads_of<T>(views.v),
        heads_of<T>(views.out),     data_of<C>(views.lse),      Dropout(problem),
        mask_of<T, C>(views.mask),  C(problem.scale),           C(1 / (1 - problem.dropout))};
    simt::launch({.name = "attention_simt",
                  .grid = unsigned(problem.batch * problem.heads * blocks * slices),
                  .block = simt_threads,
                  .shared_bytes = shared_bytes<C>,
                  .stream = stream},
                 attention_simt_kernel<Element<T>, C>, args, problem, int(blocks), int(slices));
  });
}

}  // namespace reprise::kernels::attention_detail
