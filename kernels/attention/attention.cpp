// Attention forward. A task is a block of 64 queries of one head; vectors run over queries, so the running
// maximum and sum of the softmax need no sums across lanes. Q is packed transposed once, and O is kept
// transposed:
//   S^T = K Q^T,  P^T = exp(S^T - m),  O^T = O^T exp(m_old - m) + V^T P^T      for each block of keys
#include "reprise/kernels/attention/attention.h"

#include "reprise/core/parallel.h"
#include "reprise/kernels/attention/few_queries.h"
#include "reprise/kernels/attention/forward_products.h"
#include "reprise/kernels/attention/mask_block.h"

namespace reprise::kernels {
namespace attention_detail {
namespace {

void check_mask(const char* op, const TensorView& mask, const TensorView& q, const TensorView& k) {
  const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  check(mask.shape == scores, op, ": the mask has shape ", mask.shape, ", the scores have ", scores);
  const DType wide = q.dtype == DType::f64 ? DType::f64 : DType::f32;
  check(mask.dtype == DType::boolean || mask.dtype == wide || mask.dtype == q.dtype, op,
        ": the mask must be bool, ", wide, " or of q's dtype, ", q.dtype, ", got ", mask.dtype);
}

}  // namespace

Problem check_attention(const char* op, const AttentionArguments& arguments) {
  const auto& [q, k, v, options, out, lse, mask] = arguments;
  check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, op, ": needs (B, H, T, D) tensors, got shapes ",
        q.shape, ", ", k.shape, " and ", v.shape);
  check(k.shape == v.shape, op, ": k and v differ in shape: ", k.shape, " and ", v.shape);
  check(q.size(0) == k.size(0) && q.size(3) == k.size(3), op,
        ": q and k differ in batch or head size: ", q.shape, " and ", k.shape);
  check(k.size(1) > 0 ? q.size(1) % k.size(1) == 0 : q.size(1) == 0, op, ": ", q.size(1),
        " heads are not a multiple of ", k.size(1), " kv heads");
  check(out.shape == q.shape, op, ": out has shape ", out.shape, ", q has ", q.shape);
  check(is_floating(q.dtype), op, ": needs a floating dtype, got ", q.dtype);
  check(k.dtype == q.dtype && v.dtype == q.dtype && out.dtype == q.dtype, op, ": dtypes differ: ", q.dtype,
        ", ", k.dtype, ", ", v.dtype, " and ", out.dtype);
  if (lse) {
    DType want = q.dtype == DType::f64 ? DType::f64 : DType::f32;
    check(lse.shape == Shape{q.size(0), q.size(1), q.size(2)}, op, ": lse has shape ", lse.shape, ", q has ",
          q.shape);
    check(lse.dtype == want && lse.is_contiguous(), op, ": lse must be contiguous ", want, ", got ",
          lse.dtype, " with strides ", lse.strides);
  }
  if (mask) check_mask(op, mask, q, k);
  for (const TensorView* x : {&q, &k, &v, &out})
    check(x->stride(3) == 1 || x->size(3) <= 1, op, ": needs stride 1 in the last dimension, got strides ",
          x->strides);
  check(options.dropout >= 0 && options.dropout < 1, op, ": dropout must be in [0, 1), got ",
        options.dropout);
  double scale = options.scale != 0 ? options.scale : 1 / std::sqrt(double(std::max<int64_t>(q.size(3), 1)));
  return {q.size(0),      q.size(1), k.size(1),       q.size(2),    k.size(2),     q.size(3),
          options.causal, scale,     options.dropout, options.seed, options.offset};
}

namespace {

template <class T>
struct Head {
  Rows<T> q, k, v, out;
  Accumulator<T>* lse;  // of this head's first query, or null
  TensorView mask;      // (T_q, T_k), or none
  int64_t index;        // b * H + h
};

/// Some consecutive blocks of queries of one head, so that K and V are packed once for all of them. The
/// arrays are (rows, kBlock), queries in the lanes.
template <class T, int L, class Products>
class ForwardPart {
 public:
  using C = Accumulator<T>;
  using V = simd::Vector<C, L>;

  ForwardPart(const Problem& problem, const Head<T>& head, int64_t blocks, Workspace& memory)
      : problem_(problem), head_(head), width_(Products::width(problem)), products_(problem, blocks, memory) {
    all_o_ = memory.take<C>(blocks * width_ * kBlock);
    for (C** row : {&all_max_, &all_sum_}) *row = memory.take<C>(blocks * kBlock);
    for (C** square : {&p_, &keep_, &by_rows_}) *square = memory.take<C>(kBlock * kBlock);
    if (head.mask) added_ = memory.take<C>(kBlock * kBlock);
  }

  void run(int64_t first_query, int64_t end_query) {
    int64_t end_key = std::max<int64_t>(problem_.visible_keys(end_query - 1), 1);
    for (int64_t key = 0; key < end_key; key += kBlock) {
      first_key_ = key;
      keys_ = std::min(kBlock, problem_.keys - key);
      bool packed = false;
      for (int64_t query = first_query; query < end_query; query += kBlock) {
        select(query, end_query, (query - first_query) / kBlock);
        if (key == 0) start();
        if (problem_.visible_keys(query + queries_ - 1) <= key) continue;
        mask_ = load_mask();
        if (mask_ == MaskBlock::hides_all) continue;
        if (!packed) products_.pack_keys(head_.k, head_.v, key, keys_);
        packed = true;
        add_keys(end_query);
      }
    }
    for (int64_t query = first_query; query < end_query; query += kBlock) {
      select(query, end_query, (query - first_query) / kBlock);
      write();
    }
  }

 private:
  /// Makes a block of queries the current one.
  void select(int64_t first_query, int64_t end_query, int64_t block) {
    first_query_ = first_query;
    queries_ = std::min(kBlock, end_query - first_query);
    vectors_ = (queries_ + L - 1) / L;
    block_ = block;
    o_ = all_o_ + block * width_ * kBlock;
    max_ = all_max_ + block * kBlock;
    sum_ = all_sum_ + block * kBlock;
  }

  void start() {
    products_.pack_queries(head_.q, block_, first_query_, queries_);
    std::fill(o_, o_ + width_ * kBlock, C(0));
    std::fill(max_, max_ + kBlock, -std::numeric_limits<C>::infinity());
    std::fill(sum_, sum_ + kBlock, C(0));
  }

  /// Takes the mask's part for the current blocks of queries and keys.
  MaskBlock load_mask() {
    if (!head_.mask) return MaskBlock::changes_none;
    const MaskBlock does =
        load_mask_block<C, L>(head_.mask, first_query_, queries_, first_key_, keys_, by_rows_);
    if (does == MaskBlock::changes)
      pack_columns<C, L>(Rows<C>(by_rows_, kBlock), 0, queries_, keys_, C(1), added_, kBlock);
    return does;
  }

  /// Keys of the current block that some query of vector `v` sees, if the mask lets it.
  int64_t visible(int64_t v) const {
    int64_t last = std::min(v * L + L, queries_) - 1;
    return std::clamp<int64_t>(problem_.visible_keys(first_query_ + last) - first_key_, 0, keys_);
  }

  void add_keys(int64_t end_query) {
    int64_t first_vector = 0;
    for (int64_t key = 0; key < keys_; key += Products::score_rows) {
      prefetch(key, end_query);
      while (first_vector < vectors_ && visible(first_vector) <= key) ++first_vector;
      products_.scores(block_, key, first_vector, vectors_, p_);
    }
    if (problem_.dropout > 0) {
      dropout_factors<C, L>(problem_, head_.index, first_query_, queries_, first_key_, by_rows_);
      pack_columns<C, L>(Rows<C>(by_rows_, kBlock), 0, queries_, keys_, C(1), keep_, kBlock);
    }
    for (int64_t v = 0; v < vectors_; ++v) softmax(visible(v), v);
    products_.add_output(
        p_, vectors_, [&](int64_t v) { return visible(v); }, o_);
  }

  /// While the scores of some keys are computed: the rows of Q, K and V that the next blocks will pack.
  void prefetch(int64_t key, int64_t end_query) {
    int64_t query = first_query_ + kBlock + key;
    if (first_key_ == 0)
      prefetch_rows(head_.q, query, std::min(query + Products::score_rows, end_query), problem_.head_dim);
    if (first_query_ + kBlock < end_query) return;
    key += first_key_ + kBlock;
    int64_t end_key = std::min(key + Products::score_rows, problem_.visible_keys(end_query - 1));
    prefetch_rows(head_.k, key, end_key, problem_.head_dim);
    prefetch_rows(head_.v, key, end_key, problem_.head_dim);
  }

  /// Turns the scores of `keys` keys against the queries of vector `v` into probabilities, up to the sum.
  void softmax(int64_t keys, int64_t v) {
    C* p = p_ + v * L;
    const bool masked = mask_ == MaskBlock::changes;
    if (masked) add_mask(keys, v);
    if (problem_.causal) hide_later_keys(keys, v);
    const C scale = masked ? C(1) : products_.score_scale();
    V old_max = simd::load<V>(max_ + v * L), max = V{} - std::numeric_limits<C>::infinity();
    for (int64_t key = 0; key < keys; ++key) {
      V score = simd::load<V>(p + key * kBlock);
      max = score > max ? score : max;
    }
    max *= scale;
    max = old_max > max ? old_max : max;
    // A row that has seen no key yet keeps the maximum -inf; shifting it by 0 avoids -inf - -inf.
    V shift = max == -std::numeric_limits<C>::infinity() ? V{} : max;
    V rescale = simd::exp_of_nonpositive(V(old_max - shift));
    V sum = simd::load<V>(sum_ + v * L) * rescale;
    for (int64_t key = 0; key < keys; ++key) {
      V e = simd::exp_of_nonpositive(V(simd::load<V>(p + key * kBlock) * scale - shift));
      sum += e;
      if (problem_.dropout > 0) e *= simd::load<V>(keep_ + key * kBlock + v * L);
      simd::store(p + key * kBlock, e);
    }
    simd::store(max_ + v * L, max);
    simd::store(sum_ + v * L, sum);
    for (int64_t d = 0; d < problem_.head_dim; ++d) {
      C* o = o_ + d * kBlock + v * L;
      simd::store(o, simd::load<V>(o) * rescale);
    }
  }

  /// Scales scores and adds the mask.
  void add_mask(int64_t keys, int64_t v) {
    const C scale = products_.score_scale();
    const V hidden = V{} - std::numeric_limits<C>::infinity();
    for (int64_t key = 0; key < keys; ++key) {
      C* p = p_ + key * kBlock + v * L;
      const V added = simd::load<V>(added_ + key * kBlock + v * L), score = simd::load<V>(p) * scale + added;
      simd::store(p, added == hidden ? hidden : score);
    }
  }

  /// Scores of keys that come after a query become -inf.
  void hide_later_keys(int64_t keys, int64_t v) {
    // Lane i of the vector sees key j if j <= i + shift.
    int64_t shift = first_query_ + v * L + problem_.keys - problem_.queries - first_key_;
    const auto infinity = reinterpret_cast<decltype(V{} < V{})>(V{} - std::numeric_limits<C>::infinity());
    for (int64_t key = std::max<int64_t>(shift + 1, 0); key < keys; ++key) {
      auto score = simd::load<decltype(V{} < V{})>(p_ + key * kBlock + v * L);
      auto unseen = first_lanes<V>(key - shift);
      simd::store(p_ + key * kBlock + v * L, (score & ~unseen) | (infinity & unseen));
    }
  }

  void write() {
    for (int64_t i = 0; i < queries_; ++i) {
      if (head_.lse) head_.lse[first_query_ + i] = max_[i] + std::log(sum_[i]);
      sum_[i] = sum_[i] == 0 ? C(0) : 1 / sum_[i];
    }
    write_columns<L>(o_, width_, head_.out, first_query_, queries_, problem_.head_dim,
                     [&](int64_t v) { return simd::load<V>(sum_ + v * L); });
  }

  const Problem& problem_;
  const Head<T>& head_;
  int64_t width_;  // head_dim, padded
  Products products_;
  C *all_o_, *all_max_, *all_sum_;
  C *p_, *keep_, *by_rows_;  // by_rows_: (queries, keys), before it is transposed
  C* added_ = nullptr;       // by the mask; null without one
  MaskBlock mask_{};         // what it does to the current block
  int64_t first_key_ = 0, keys_ = 0, first_query_ = 0, queries_ = 0;
  int64_t vectors_ = 0;                               // of queries
  int64_t block_ = 0;                                 // the current one
  C *o_ = nullptr, *max_ = nullptr, *sum_ = nullptr;  // of it
};

template <class T, int L>
void run_part(const Problem& problem, const Head<T>& head, int64_t blocks, int64_t first_query,
              int64_t end_query) {
  if (!head.mask && FewQueries<T, L>::suits(problem))
    return in_workspace<FewQueries<T, L>>(problem, head.q, head.k, head.v, head.out, head.lse).run();
  if constexpr (std::is_same_v<T, BFloat16>)
    if (suits_bf16_products(problem, DType::bf16))
      return in_workspace<ForwardPart<T, L, Bf16Forward<L>>>(problem, head, blocks)
          .run(first_query, end_query);
  in_workspace<ForwardPart<T, L, VectorForward<T, L>>>(problem, head, blocks).run(first_query, end_query);
}

template <class T>
void forward(const Problem& problem, const AttentionArguments& x) {
  using C = Accumulator<T>;
  int64_t heads = problem.batch * problem.heads, blocks = (problem.queries + kBlock - 1) / kBlock;
  // A task takes as many blocks as leave work for all; the bits do not depend on it.
  int64_t group = heads * ((blocks + 3) / 4) >= 4 * num_threads() ? 4 : 1,
          parts = (blocks + group - 1) / group;
  parallel_tasks(heads * parts, [&](int64_t task) {
    // Causal parts grow with the queries: the long ones start first.
    int64_t index = task / parts, first_query = (parts - 1 - task % parts) * group * kBlock;
    int64_t end_query = std::min(first_query + group * kBlock, problem.queries);
    int64_t b = index / problem.heads, h = index % problem.heads;
    int64_t kv_h = h / (problem.heads / problem.kv_heads);
    Head<T> head{{x.q, b, h},
                 {x.k, b, kv_h},
                 {x.v, b, kv_h},
                 {x.out, b, h},
                 x.lse ? x.lse.as<C>() + index * problem.queries : nullptr,
                 mask_of_head(x.mask, b, h),
                 index};
    simd::run(
        [&]<int W>() { run_part<T, simd::lanes_of<T, W>>(problem, head, group, first_query, end_query); });
  });
}

void attention_cpu(const Stream&, const AttentionArguments& x) {
  Problem problem = check_attention("attention", x);
  if (problem.batch * problem.heads * problem.queries == 0) return;
  dispatch_floating(x.q.dtype, "attention", [&]<class T>() { forward<T>(problem, x); });
}

}  // namespace
}  // namespace attention_detail

decltype(attention) attention{"attention", attention_detail::attention_cpu};

}  // namespace reprise::kernels
