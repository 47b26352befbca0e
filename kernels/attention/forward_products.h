// The two products of attention's forward, by vectors of f32 (f64) and by the CPU's products of bf16. Both have queries
// in the lanes, and blocks of queries that K and V are packed once for:
//   S^T = K Q^T (times score_scale),   O^T += V^T P^T
#pragma once

#include <cstdint>

#include "reprise/kernels/attention/bf16_blocks.h"
#include "reprise/kernels/attention/cpu_tile.h"
#include "reprise/kernels/attention/workspace.h"
#include "reprise/kernels/cpu/amx.h"

namespace reprise::kernels::attention_detail {

template <class T, int L>
class VectorForward {
 public:
  using C = Accumulator<T>;
  static constexpr int64_t score_rows = 4;  // keys that `scores` takes

  VectorForward(const Problem& problem, int64_t blocks, Workspace& memory)
      : head_dim_(problem.head_dim), scale_(C(problem.scale)), width_(width(problem)) {
    q_ = memory.take<C>(blocks * width_ * kBlock);
    for (C** rows : {&k_, &v_}) *rows = memory.take<C>(kBlock * width_);
  }

  /// Rows of O^T.
  static int64_t width(const Problem& problem) { return padded_width<L>(problem.head_dim); }
  C score_scale() const { return 1; }

  void pack_keys(const Rows<T>& k, const Rows<T>& v, int64_t first, int64_t keys) {
    pack_rows<C, L>(k, first, keys, head_dim_, C(1), k_, width_);
    pack_rows<C, L>(v, first, keys, head_dim_, C(1), v_, width_);
  }
  void pack_queries(const Rows<T>& q, int64_t block, int64_t first, int64_t queries) {
    pack_columns<C, L>(q, first, queries, head_dim_, scale_, q_ + block * width_ * kBlock, width_);
  }

  /// Rows [key, key + score_rows) of S^T, for some vectors of queries.
  void scores(int64_t block, int64_t key, int64_t first_vector, int64_t end_vector, C* p) const {
    Product<C> product{k_, width_, 1, q_ + block * width_ * kBlock, kBlock, p, kBlock};
    multiply_rows<L>(product, key, {0, head_dim_, first_vector, end_vector}, false);
  }

  /// Vector v of the queries sees visible(v) keys.
  template <class Visible>
  void add_output(const C* p, int64_t vectors, Visible&& visible, C* o) {
    Product<C> product{v_, 1, width_, p, kBlock, o, kBlock};
    int64_t key = 0;
    for (int64_t v = 0; v < vectors; ++v) {
      int64_t end = visible(v);
      if (end == key) continue;
      for (int64_t d = 0; d < head_dim_; d += 4) multiply_rows<L>(product, d, {key, end, v, vectors}, true);
      key = end;
    }
  }

 private:
  int64_t head_dim_;
  C scale_;
  int64_t width_;
  C *q_, *k_, *v_;  // (blocks, width, kBlock), scaled, and (kBlock, width)
};

template <int L>
class Bf16Forward {
 public:
  static constexpr int64_t score_rows = kSquare;

  Bf16Forward(const Problem& problem, int64_t blocks, Workspace& memory)
      : head_dim_(problem.head_dim),
        width_(width(problem)),
        scale_(float(std::abs(problem.scale))),
        flip_(problem.scale < 0 ? 0x80008000u : 0u) {
    q_ = memory.take<uint32_t>(blocks * kBlock * width_ / 2);
    for (uint32_t** block : {&k_, &v_columns_, &packed_}) *block = memory.take<uint32_t>(kBlock * width_ / 2);
    p_ = memory.take<uint32_t>(kBlock * kBlock / 2);
  }

  static int64_t width(const Problem& problem) { return square_width(problem.head_dim); }
  /// Positive, so that the largest score is the largest before it is scaled too.
  float score_scale() const { return scale_; }

  void pack_keys(const Rows<BFloat16>& k, const Rows<BFloat16>& v, int64_t first, int64_t keys) {
    const int64_t rows = round_up(keys, kSquare);
    pack_plain<L>(k, first, keys, head_dim_, 0, k_, width_);
    pack_pairs<L>(v, first, keys, head_dim_, packed_, width_);
    transpose_words<L>(packed_, rows / 2, width_, v_columns_, kBlock / 2);
  }
  void pack_queries(const Rows<BFloat16>& q, int64_t block, int64_t first, int64_t queries) {
    pack_plain<L>(q, first, queries, head_dim_, flip_, packed_, width_);
    transpose_words<L>(packed_, round_up(queries, kSquare), width_ / 2, q_ + block * kBlock * width_ / 2,
                       kBlock);
  }

  void scores(int64_t block, int64_t key, int64_t first_vector, int64_t end_vector, float* p) const {
    const int64_t first = first_vector * L / kSquare * kSquare, end = round_up(end_vector * L, kSquare);
    if (first >= end) return;
    multiply({k_ + key * width_ / 2, width_ / 2, q_ + block * kBlock * width_ / 2 + first, kBlock,
              p + key * kBlock + first, kBlock, kSquare, end - first, width_, false});
  }

  template <class Visible>
  void add_output(const float* p, int64_t vectors, Visible&& visible, float* o) {
    constexpr int64_t vectors_of_square = kSquare / L;
    for (int64_t v = 0; v < vectors; v += vectors_of_square) {
      const int64_t end = std::min(v + vectors_of_square, vectors);
      const int64_t depth = round_up(visible(end - 1), kSquare);
      for (int64_t i = v; i < end; ++i) round(p, i, visible(i), depth);
      if (depth == 0) continue;
      multiply({v_columns_, kBlock / 2, p_ + v * L, kBlock, o + v * L, kBlock, width_, kSquare, depth, true});
    }
  }

 private:
  /// Column `v` of P^T as pairs, with zeros for keys that no query of it sees.
  void round(const float* p, int64_t v, int64_t keys, int64_t depth) {
    using V = simd::Vector<float, L>;
    for (int64_t key = 0; key < depth; key += 2) {
      const float* at = p + key * kBlock + v * L;
      const V even = key < keys ? simd::load<V>(at) : V{},
              odd = key + 1 < keys ? simd::load<V>(at + kBlock) : V{};
      simd::store(p_ + key / 2 * kBlock + v * L, rounded_pairs<L>(even, odd));
    }
  }

  int64_t head_dim_, width_;
  float scale_;
  uint32_t flip_;        // of the signs of Q, where the scale is negative
  uint32_t* q_;          // pairs (width / 2, kBlock) of each block
  uint32_t* k_;          // plain (kBlock, width)
  uint32_t* v_columns_;  // plain (width, kBlock)
  uint32_t* packed_;     // before it is transposed
  uint32_t* p_;          // pairs (kBlock / 2, kBlock)
  amx::Session session_;
};

}  // namespace reprise::kernels::attention_detail
