// Attention backward. Blocks of 64 queries meet blocks of 64 keys, which are in the lanes of P and dS. With
// delta = rowsum(dO * O), for each pair of blocks:
//   P = exp(scale Q K^T - lse),  dS = P * (dO V^T - delta),  dV += P^T dO,  dK += scale dS^T Q,  dQ += scale dS K
// Sums over keys and over queries run in one order, whatever task they are in.
#include "reprise/core/parallel.h"
#include "reprise/kernels/attention/attention.h"
#include "reprise/kernels/attention/backward_products.h"
#include "reprise/kernels/attention/mask_block.h"

namespace reprise::kernels {
namespace attention_detail {
namespace {

/// The part of one kv head's gradients that a task computes: of the query heads [first_head, end_head) that
/// share it, the queries [first_query, end_query), against the keys [first_key, end_key).
struct Part {
  int64_t b, kv_head;
  int64_t first_head, end_head, first_query, end_query, first_key, end_key;
  bool wants_dq, wants_dkv;
};

template <class T, int L, class Products>
class BackwardPart {
 public:
  using C = Accumulator<T>;
  using V = simd::Vector<C, L>;

  BackwardPart(const Problem& problem, const AttentionBackwardArguments& views, const Part& part,
               Workspace& memory)
      : problem_(problem), views_(views), part_(part), products_(problem, query_rows(part), memory) {
    for (C** square : {&p_, &ds_, &keep_}) *square = memory.take<C>(kBlock * kBlock);
    if (views.mask) added_ = memory.take<C>(kBlock * kBlock);
    for (C** row : {&lse_, &delta_}) *row = memory.take<C>(query_rows(part));
  }

  void run() {
    if (part_.wants_dq)
      each_query_block([&](int64_t head, int64_t query, int64_t n) { pack(head, query, n); });
    for (int64_t key = part_.first_key; key < part_.end_key; key += kBlock) add_keys(key);
    if (!part_.wants_dq) return;
    each_query_block([&](int64_t head, int64_t query, int64_t n) {
      products_.write_dq(row_of(head, query), Rows<T>(views_.dq, part_.b, head), query, n);
    });
  }

 private:
  /// Rows of the query side's buffers: all blocks, padded to whole ones, or one block that all take in turn.
  static int64_t query_rows(const Part& part) {
    if (!part.wants_dq) return kBlock;
    return (part.end_head - part.first_head) * round_up(part.end_query - part.first_query, kBlock);
  }

  int64_t row_of(int64_t head, int64_t query) const {
    if (!part_.wants_dq) return 0;
    return (head - part_.first_head) * round_up(part_.end_query - part_.first_query, kBlock) + query -
           part_.first_query;
  }

  template <class Body>
  void each_query_block(Body&& body) {
    for (int64_t head = part_.first_head; head < part_.end_head; ++head)
      for (int64_t query = part_.first_query; query < part_.end_query; query += kBlock)
        body(head, query, std::min(kBlock, part_.end_query - query));
  }

  /// Packs a block of queries with their lse and delta, and sets dQ = 0. Rows of padding, and of queries that see no
  /// key, get P = 0.
  void pack(int64_t head, int64_t first_query, int64_t queries) {
    Rows<T> q(views_.q, part_.b, head), dout(views_.dout, part_.b, head), out(views_.out, part_.b, head);
    int64_t row = row_of(head, first_query), head_dim = problem_.head_dim;
    products_.pack_queries(q, dout, row, first_query, queries);
    C *delta = delta_ + row, *lse = lse_ + row;
    for (int64_t i = first_query; i < first_query + queries; ++i) {
      V sum{};
      for (int64_t d = 0; d < head_dim; d += L)
        sum +=
            simd::load_row<C, L>(out[i] + d, head_dim - d) * simd::load_row<C, L>(dout[i] + d, head_dim - d);
      delta[i - first_query] = simd::sum_lanes<L, C>(sum);
    }
    const C* saved_lse = views_.lse.as<C>() + (part_.b * problem_.heads + head) * problem_.queries;
    constexpr C infinity = std::numeric_limits<C>::infinity();
    std::copy(saved_lse + first_query, saved_lse + first_query + queries, lse);
    std::replace(lse, lse + queries, -infinity, infinity);
    std::fill(lse + queries, lse + kBlock, infinity);
    std::fill(delta + queries, delta + kBlock, C(0));
  }

  /// Takes the mask's part for a block of queries and the current keys.
  MaskBlock load_mask(int64_t head, int64_t first_query, int64_t queries) {
    if (!views_.mask) return MaskBlock::changes_none;
    return load_mask_block<C, L>(mask_of_head(views_.mask, part_.b, head), first_query, queries, first_key_,
                                 keys_, added_);
  }

  void add_keys(int64_t first_key) {
    first_key_ = first_key;
    keys_ = std::min(kBlock, problem_.keys - first_key);
    Rows<T> k(views_.k, part_.b, part_.kv_head), v(views_.v, part_.b, part_.kv_head);
    products_.pack_keys(k, v, first_key, keys_);
    each_query_block([&](int64_t head, int64_t query, int64_t n) {
      if (problem_.visible_keys(query + n - 1) <= first_key) return;
      mask_ = load_mask(head, query, n);
      if (mask_ == MaskBlock::hides_all) return;
      if (!part_.wants_dq) pack(head, query, n);
      add_queries(head, query, n);
    });
    if (!part_.wants_dkv) return;
    products_.write_dkv(Rows<T>(views_.dk, part_.b, part_.kv_head),
                        Rows<T>(views_.dv, part_.b, part_.kv_head), first_key, keys_);
  }

  void add_queries(int64_t head, int64_t first_query, int64_t queries) {
    first_query_ = first_query;
    queries_ = queries;
    row_ = row_of(head, first_query);
    if (problem_.dropout > 0)
      dropout_factors<C, L>(problem_, part_.b * problem_.heads + head, first_query, queries, first_key_,
                            keep_);
    for (int64_t i = 0; i < queries; i += Products::score_rows) {
      const int64_t keys = round_up(visible(i + Products::score_rows - 1), Products::score_columns);
      products_.scores(row_, i, keys, p_, ds_);
      for (int64_t r = i; r < i + Products::score_rows; ++r) dscores(r, keys / L);
    }
    auto visible_of = [&](int64_t i) { return visible(i); };
    if (part_.wants_dq) products_.add_dq(row_, queries, ds_, visible_of);
    if (part_.wants_dkv) products_.add_dkv(row_, queries, keys_, p_, ds_, visible_of);
  }

  /// Keys of the block that query `i` of the block sees; the rows of padding see what the last query sees.
  int64_t visible(int64_t i) const {
    i = std::min(i, queries_ - 1);
    return std::clamp<int64_t>(problem_.visible_keys(first_query_ + i) - first_key_, 0, keys_);
  }

  static V masked(V score, V added) {
    const V hidden = V{} - std::numeric_limits<C>::infinity();
    return added == hidden ? hidden : score + added;
  }

  /// Row `i` of P (as dV needs it, after dropout) and of dS, from the row's scores and dP in `vectors`
  /// vectors.
  void dscores(int64_t i, int64_t vectors) {
    C *p = p_ + i * kBlock, *ds = ds_ + i * kBlock, *keep = keep_ + i * kBlock;
    C lse = lse_[row_ + i], delta = delta_[row_ + i], scale = products_.score_scale();
    int64_t end = visible(i);
    for (int64_t j = 0; j < vectors * L; j += L) {
      const V score = simd::load<V>(p + j);
      V shifted = score * scale - lse;
      if (mask_ == MaskBlock::changes)
        shifted = masked(score * scale, simd::load<V>(added_ + i * kBlock + j)) - lse;
      V probability = simd::exp_of_nonpositive(shifted);
      V dprobability = simd::load<V>(ds + j), dropped = probability;
      if (problem_.dropout > 0) {
        dprobability *= simd::load<V>(keep + j);
        dropped *= simd::load<V>(keep + j);
      }
      V dscore = probability * (dprobability - delta);
      if (j + L > end) {
        auto seen = first_lanes<V>(end - j);
        dropped = reinterpret_cast<V>(reinterpret_cast<decltype(seen)>(dropped) & seen);
        dscore = reinterpret_cast<V>(reinterpret_cast<decltype(seen)>(dscore) & seen);
      }
      simd::store(p + j, dropped);
      simd::store(ds + j, dscore);
    }
    for (int64_t j = vectors * L; j < kBlock; j += L) {
      simd::store(p + j, V{});
      simd::store(ds + j, V{});
    }
  }

  const Problem& problem_;
  const AttentionBackwardArguments& views_;
  const Part& part_;
  Products products_;
  C *p_, *ds_, *keep_;  // (queries, keys)
  C* added_ = nullptr;  // (queries, keys), by the mask; null without one
  MaskBlock mask_{};    // what it does to the current block
  C *lse_, *delta_;     // (query_rows)
  int64_t first_key_ = 0, keys_ = 0, first_query_ = 0, queries_ = 0;
  int64_t row_ = 0;  // of the block's first query
};

template <class T>
void run_part(const Problem& problem, const AttentionBackwardArguments& views, const Part& part) {
  simd::run([&]<int W>() {
    constexpr int L = simd::lanes_of<T, W>;
    if constexpr (std::is_same_v<T, BFloat16>)
      if (suits_bf16_products(problem, DType::bf16))
        return in_workspace<BackwardPart<T, L, Bf16Backward<L>>>(problem, views, part).run();
    in_workspace<BackwardPart<T, L, VectorBackward<T, L>>>(problem, views, part).run();
  });
}

/// One task for each kv head if that is enough work to share out and its dQ stays in the cache; else tasks
/// for blocks of queries (dQ) and then of keys (dK, dV), which compute P and dS twice. The bits are the same.
template <class T>
void backward(const Problem& problem, const AttentionBackwardArguments& views) {
  int64_t tasks = problem.batch * problem.kv_heads, group = problem.heads / problem.kv_heads;
  auto part_of = [&](int64_t task) {
    return Part{task / problem.kv_heads,
                task % problem.kv_heads,
                (task % problem.kv_heads) * group,
                (task % problem.kv_heads + 1) * group,
                0,
                problem.queries,
                0,
                problem.keys,
                true,
                true};
  };
  constexpr int64_t most_dq = 1 << 19;  // values
  if (tasks >= 2 * num_threads() && group * problem.queries * problem.head_dim <= most_dq) {
    parallel_tasks(tasks, [&](int64_t task) { run_part<T>(problem, views, part_of(task)); });
    return;
  }
  int64_t query_blocks = (problem.queries + kBlock - 1) / kBlock,
          key_blocks = (problem.keys + kBlock - 1) / kBlock;
  parallel_tasks(tasks * group * query_blocks, [&](int64_t i) {
    Part part = part_of(i / (group * query_blocks));
    part.first_head += i / query_blocks % group;
    part.end_head = part.first_head + 1;
    part.first_query = i % query_blocks * kBlock;
    part.end_query = std::min(part.first_query + kBlock, problem.queries);
    part.wants_dkv = false;
    run_part<T>(problem, views, part);
  });
  parallel_tasks(tasks * key_blocks, [&](int64_t i) {
    Part part = part_of(i / key_blocks);
    part.first_key = i % key_blocks * kBlock;
    part.end_key = std::min(part.first_key + kBlock, problem.keys);
    part.wants_dq = false;
    run_part<T>(problem, views, part);
  });
}

void attention_backward_cpu(const Stream&, const AttentionBackwardArguments& x) {
  Problem problem = check_attention_backward(x);
  dispatch_floating(x.q.dtype, "attention_backward", [&]<class T>() { backward<T>(problem, x); });
}

}  // namespace

Problem check_attention_backward(const AttentionBackwardArguments& arguments) {
  const auto& [dout, q, k, v, out, lse, options, dq, dk, dv, mask] = arguments;
  const char* op = "attention_backward";
  Problem problem = check_attention(op, {q, k, v, options, out, lse, mask});
  check_attention(op, {dq, dk, dv, options, dout, lse});
  check(dq.shape == q.shape && dk.shape == k.shape, op, ": gradients have shapes ", dq.shape, " and ",
        dk.shape, ", inputs ", q.shape, " and ", k.shape);
  check(dq.dtype == q.dtype, op, ": gradients are ", dq.dtype, ", inputs ", q.dtype);
  check(lse || problem.batch * problem.heads * problem.queries == 0, op,
        ": needs the lse that forward saved");
  return problem;
}

}  // namespace attention_detail

decltype(attention_backward) attention_backward{"attention_backward",
                                                attention_detail::attention_backward_cpu};

}  // namespace reprise::kernels
