// Attention of few queries to many keys, such as a new token's to all before it: K and V are read once, as they lie, where
// packing them for blocks of queries would cost more than both products. Vectors run over channels for the scores and the result,
// and over keys for the softmax:
//   s_j = scale q . k_j,   p_j = exp(s_j - m),   o = (sum of p_j v_j) / (sum of p_j)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reprise/kernels/attention/cpu_tile.h"
#include "reprise/kernels/attention/workspace.h"
#include "reprise/kernels/cpu/simd_math.h"

namespace reprise::kernels::attention_detail {

template <class T, int L>
class FewQueries {
 public:
  using C = Accumulator<T>;
  using V = simd::Vector<C, L>;
  static constexpr int64_t most_queries = 4;

  /// Whether it is the quicker way, without a mask and dropout: for so few keys that they stay in the cache, packing costs little.
  static bool suits(const Problem& problem) {
    return problem.queries <= most_queries && problem.keys >= 64 && problem.dropout == 0;
  }

  /// All queries of one head; `lse` is null or has a number for each.
  FewQueries(const Problem& problem, const Rows<T>& q, const Rows<T>& k, const Rows<T>& v, Rows<T> out,
             C* lse, Workspace& memory)
      : problem_(problem),
        k_(k),
        v_(v),
        out_(out),
        lse_(lse),
        q_width_(padded_width<L>(problem.head_dim)),
        p_width_(round_up(problem.keys, L)),
        q_(memory.take<C>(problem.queries * q_width_)),
        p_(memory.take<C>(problem.queries * p_width_)),
        queries_(q) {}

  void run() {
    widen_queries();
    switch (problem_.queries) {
      case 1:
        return run_rows<1>();
      case 2:
        return run_rows<2>();
      case 3:
        return run_rows<3>();
      default:
        return run_rows<4>();
    }
  }

 private:
  static constexpr int64_t ahead = 4096 / int64_t(sizeof(T));  // elements: memory is late

  void widen_queries() {
    const C scale = C(problem_.scale);
    std::fill(q_, q_ + problem_.queries * q_width_, C(0));
    for (int64_t r = 0; r < problem_.queries; ++r)
      for (int64_t d = 0; d < problem_.head_dim; d += L)
        simd::store_row<C, L>(q_ + r * q_width_ + d,
                              V(simd::load_row<C, L>(queries_[r] + d, problem_.head_dim - d) * scale),
                              problem_.head_dim - d);
  }

  template <int R>
  [[gnu::always_inline]] void run_rows() {
    scores<R>();
    C sums[R];
    for (int r = 0; r < R; ++r) sums[r] = softmax(r);
    for (int64_t d = 0; d < problem_.head_dim;) {
      if (problem_.head_dim - d >= 4 * L) {
        output<R, 4>(d, sums);
        d += 4 * L;
      } else {
        output<R, 1>(d, sums);
        d += L;
      }
    }
  }

  /// p = scale q . k of all keys, also of those that a query does not see.
  template <int R>
  [[gnu::always_inline]] void scores() {
    for (int64_t key = 0; key < problem_.keys; ++key) {
      const T* k = k_[key];
      V sum[R] = {};
      for (int64_t d = 0; d < problem_.head_dim; d += L) {
        __builtin_prefetch(k + d + ahead);
        const V y = simd::load_row<C, L>(k + d, problem_.head_dim - d);
        for (int r = 0; r < R; ++r) sum[r] += simd::load<V>(q_ + r * q_width_ + d) * y;
      }
      for (int r = 0; r < R; ++r) p_[r * p_width_ + key] = simd::sum_lanes<L, C>(sum[r]);
    }
  }

  /// Turns the scores of query r into probabilities, up to their sum, which it returns.
  [[gnu::always_inline]] C softmax(int64_t r) {
    constexpr C infinity = std::numeric_limits<C>::infinity();
    const int64_t keys = problem_.visible_keys(r);
    C* p = p_ + r * p_width_;
    V most = V{} - infinity;
    for (int64_t j = 0; j < keys; j += L) {
      const V score = simd::load_row<C, L>(p + j, keys - j, -infinity);
      simd::store(p + j, score);
      most = score > most ? score : most;
    }
    const C max = max_lanes(most), shift = max == -infinity ? C(0) : max;  // -inf - -inf is NaN
    V sum = {};
    for (int64_t j = 0; j < keys; j += L) {
      const V e = simd::exp_of_nonpositive(V(simd::load<V>(p + j) - shift));
      sum += e;
      simd::store(p + j, e);
    }
    const C total = simd::sum_lanes<L, C>(sum);
    if (lse_) lse_[r] = max + std::log(total);
    return total;
  }

  /// Channels d, d + 1, ... of U vectors.
  template <int R, int U>
  [[gnu::always_inline]] void output(int64_t d, const C* sums) {
    V o[R][U] = {};
    const int64_t left = problem_.head_dim - d, all_see = problem_.visible_keys(0);
    for (int64_t key = 0; key < all_see; ++key) {
      const T* v = v_[key] + d;
      for (int u = 0; u < U; ++u) {
        __builtin_prefetch(v + u * L + ahead);
        const V y = simd::load_row<C, L>(v + u * L, left - u * L);
        for (int r = 0; r < R; ++r) o[r][u] += p_[r * p_width_ + key] * y;
      }
    }
    for (int r = 1; r < R; ++r)  // what the first query does not see: no number of it may reach that
      for (int64_t key = all_see; key < problem_.visible_keys(r); ++key)
        for (int u = 0; u < U; ++u)
          o[r][u] += p_[r * p_width_ + key] * simd::load_row<C, L>(v_[key] + d + u * L, left - u * L);
    for (int r = 0; r < R; ++r) {
      const C scale = sums[r] == 0 ? C(0) : 1 / sums[r];
      for (int u = 0; u < U; ++u)
        simd::store_row<C, L>(out_[r] + d + u * L, V(o[r][u] * scale), left - u * L);
    }
  }

  [[gnu::always_inline]] static C max_lanes(V x) {
    alignas(64) C lanes[size_t(L)];
    simd::store(lanes, x);
    C most = lanes[0];
    for (int i = 1; i < L; ++i) most = lanes[i] > most ? lanes[i] : most;
    return most;
  }

  const Problem& problem_;
  Rows<T> k_, v_, out_;
  C* lse_;
  int64_t q_width_, p_width_;
  C* q_;  // (queries, q_width_), widened and scaled
  C* p_;  // (queries, p_width_)
  Rows<T> queries_;
};

}  // namespace reprise::kernels::attention_detail
