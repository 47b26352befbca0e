// The five products of attention's backward, by vectors of f32 (f64) and by the CPU's products of bf16, for a block of
// keys and blocks of queries that are packed before:
//   S = Q K^T (times score_scale),  dP = dO V^T,  dQ += dS K,  dV += P^T dO,  dK += dS^T Q
#pragma once

#include <cstdint>

#include "reprise/kernels/attention/bf16_blocks.h"
#include "reprise/kernels/attention/cpu_tile.h"
#include "reprise/kernels/attention/workspace.h"
#include "reprise/kernels/cpu/amx.h"

namespace reprise::kernels::attention_detail {

template <class T, int L>
class VectorBackward {
 public:
  using C = Accumulator<T>;
  using V = simd::Vector<C, L>;
  static constexpr int64_t score_rows = 4;  // queries that `scores` takes
  static constexpr int64_t score_columns = L;

  /// For `rows` queries, a multiple of kBlock.
  VectorBackward(const Problem& problem, int64_t rows, Workspace& memory)
      : head_dim_(problem.head_dim), scale_(C(problem.scale)), width_(padded_width<L>(problem.head_dim)) {
    for (C** block : {&k_columns_, &v_columns_, &k_, &dk_, &dv_}) *block = memory.take<C>(kBlock * width_);
    for (C** side : {&q_, &dout_, &dq_}) *side = memory.take<C>(rows * width_);
  }

  C score_scale() const { return 1; }

  /// Packs a block of keys, and sets its dK and dV to 0.
  void pack_keys(const Rows<T>& k, const Rows<T>& v, int64_t first, int64_t keys) {
    pack_columns<C, L>(k, first, keys, head_dim_, C(1), k_columns_, width_);
    pack_columns<C, L>(v, first, keys, head_dim_, C(1), v_columns_, width_);
    pack_rows<C, L>(k, first, keys, head_dim_, C(1), k_, width_);
    for (C* sums : {dk_, dv_}) std::fill(sums, sums + kBlock * width_, C(0));
  }
  /// Packs a block of queries as rows `row` and on, and sets its dQ to 0.
  void pack_queries(const Rows<T>& q, const Rows<T>& dout, int64_t row, int64_t first, int64_t queries) {
    pack_rows<C, L>(q, first, queries, head_dim_, scale_, q_ + row * width_, width_);
    pack_rows<C, L>(dout, first, queries, head_dim_, C(1), dout_ + row * width_, width_);
    std::fill(dq_ + row * width_, dq_ + (row + kBlock) * width_, C(0));
  }

  /// Rows [i, i + score_rows) of S and dP of the block at `row`, for `keys` keys, a multiple of score_columns.
  void scores(int64_t row, int64_t i, int64_t keys, C* s, C* dp) const {
    const Extent extent{0, head_dim_, 0, keys / L};
    multiply_rows<L>(Product<C>{q_ + row * width_, width_, 1, k_columns_, kBlock, s, kBlock}, i, extent,
                     false);
    multiply_rows<L>(Product<C>{dout_ + row * width_, width_, 1, v_columns_, kBlock, dp, kBlock}, i, extent,
                     false);
  }

  /// Query i of the block sees visible(i) of the block's keys.
  template <class Visible>
  void add_dq(int64_t row, int64_t queries, const C* ds, Visible&& visible) {
    Product<C> product{ds, kBlock, 1, k_, width_, dq_ + row * width_, width_};
    for (int64_t i = 0; i < queries; i += 4)
      multiply_rows<L>(product, i, {0, visible(i + 3), 0, width_ / L}, true);
  }
  template <class Visible>
  void add_dkv(int64_t row, int64_t queries, int64_t keys, const C* p, const C* ds, Visible&& visible) {
    Product<C> dv{p, 1, kBlock, dout_ + row * width_, width_, dv_, width_};
    Product<C> dk{ds, 1, kBlock, q_ + row * width_, width_, dk_, width_};
    for (const Product<C>& product : {dv, dk}) {
      int64_t first = 0;  // query that sees a key of the four rows
      for (int64_t key = 0; key < keys; key += 4) {
        while (first < queries && visible(first) <= key) ++first;
        multiply_rows<L>(product, key, {first, queries, 0, width_ / L}, true);
      }
    }
  }

  void write_dq(int64_t row, const Rows<T>& to, int64_t first, int64_t queries) const {
    write(dq_ + row * width_, to, first, queries, scale_);
  }
  void write_dkv(const Rows<T>& dk, const Rows<T>& dv, int64_t first, int64_t keys) const {
    write(dk_, dk, first, keys, C(1));
    write(dv_, dv, first, keys, C(1));
  }

 private:
  void write(const C* from, const Rows<T>& to, int64_t first, int64_t rows, C scale) const {
    write_rows<L>(from, width_, to, first, rows, head_dim_, scale);
  }

  int64_t head_dim_;
  C scale_;
  int64_t width_;                               // head_dim, padded
  C *k_columns_, *v_columns_, *k_, *dk_, *dv_;  // of the keys: (width, kBlock), then (kBlock, width)
  C *q_, *dout_, *dq_;                          // (rows, width); Q is scaled
};

/// dK and dV are kept transposed: so each of P and dS is rounded to pairs of queries, as lanes are keys.
template <int L>
class Bf16Backward {
 public:
  using V = simd::Vector<float, L>;
  static constexpr int64_t score_rows = kSquare, score_columns = kSquare;

  Bf16Backward(const Problem& problem, int64_t rows, Workspace& memory)
      : head_dim_(problem.head_dim), width_(square_width(problem.head_dim)), scale_(float(problem.scale)) {
    for (uint32_t** block : {&k_columns_, &v_columns_, &k_, &packed_})
      *block = memory.take<uint32_t>(kBlock * width_ / 2);
    for (float** sums : {&dk_, &dv_}) *sums = memory.take<float>(kBlock * width_);
    for (uint32_t** side : {&q_, &dout_, &q_columns_, &dout_columns_})
      *side = memory.take<uint32_t>(rows * width_ / 2);
    dq_ = memory.take<float>(rows * width_);
    for (uint32_t** square : {&p_, &ds_}) *square = memory.take<uint32_t>(kBlock * kBlock / 2);
  }

  float score_scale() const { return scale_; }

  void pack_keys(const Rows<BFloat16>& k, const Rows<BFloat16>& v, int64_t first, int64_t keys) {
    const int64_t rows = round_up(keys, kSquare);
    for (auto [from, to] : {std::pair(&k, k_columns_), std::pair(&v, v_columns_)}) {
      pack_plain<L>(*from, first, keys, head_dim_, 0, packed_, width_);
      transpose_words<L>(packed_, rows, width_ / 2, to, kBlock);
    }
    pack_pairs<L>(k, first, keys, head_dim_, k_, width_);
    for (float* sums : {dk_, dv_}) std::fill(sums, sums + kBlock * width_, 0.0f);
  }
  void pack_queries(const Rows<BFloat16>& q, const Rows<BFloat16>& dout, int64_t row, int64_t first,
                    int64_t queries) {
    const int64_t rows = round_up(queries, kSquare), at = row * width_ / 2;
    for (auto [from, plain, columns] :
         {std::tuple(&q, q_, q_columns_), std::tuple(&dout, dout_, dout_columns_)}) {
      pack_plain<L>(*from, first, queries, head_dim_, 0, plain + at, width_);
      pack_pairs<L>(*from, first, queries, head_dim_, packed_, width_);
      transpose_words<L>(packed_, rows / 2, width_, columns + at, kBlock / 2);
    }
    std::fill(dq_ + row * width_, dq_ + (row + kBlock) * width_, 0.0f);
  }

  void scores(int64_t row, int64_t i, int64_t keys, float* s, float* dp) const {
    const int64_t a = (row + i) * width_ / 2, c = i * kBlock;
    multiply({q_ + a, width_ / 2, k_columns_, kBlock, s + c, kBlock, kSquare, keys, width_, false});
    multiply({dout_ + a, width_ / 2, v_columns_, kBlock, dp + c, kBlock, kSquare, keys, width_, false});
  }

  template <class Visible>
  void add_dq(int64_t row, int64_t queries, const float* ds, Visible&& visible) {
    for (int64_t i = 0; i < queries; i += kSquare) {
      const int64_t depth = round_up(visible(i + kSquare - 1), kSquare);
      for (int64_t r = i; r < i + kSquare; ++r) {
        auto* to = reinterpret_cast<uint16_t*>(ds_ + r * kBlock / 2);
        for (int64_t j = 0; j < depth; j += L)
          simd::store(to + j, simd::rounded_to_bf16<L>(simd::load<V>(ds + r * kBlock + j)));
      }
      multiply({ds_ + i * kBlock / 2, kBlock / 2, k_, width_, dq_ + (row + i) * width_, width_, kSquare,
                width_, depth, true});
    }
  }
  template <class Visible>
  void add_dkv(int64_t row, int64_t queries, int64_t keys, const float* p, const float* ds,
               Visible&& visible) {
    const int64_t end = round_up(queries, kSquare), at = row * width_ / 2;
    round(p, end, p_);
    round(ds, end, ds_);
    for (int64_t key = 0, first = 0; key < keys; key += kSquare) {
      while (first < queries && visible(first) <= key) ++first;  // the first query that sees a key of these
      const int64_t from = first / kSquare * kSquare;
      for (auto [a, b, c] : {std::tuple(dout_columns_, p_, dv_), std::tuple(q_columns_, ds_, dk_)})
        multiply({a + at + from / 2, kBlock / 2, b + from / 2 * kBlock + key, kBlock, c + key, kBlock, width_,
                  kSquare, end - from, true});
    }
  }

  void write_dq(int64_t row, const Rows<BFloat16>& to, int64_t first, int64_t queries) const {
    write_rows<L>(dq_ + row * width_, width_, to, first, queries, head_dim_, scale_);
  }
  void write_dkv(const Rows<BFloat16>& dk, const Rows<BFloat16>& dv, int64_t first, int64_t keys) const {
    write_columns<L>(dk_, width_, dk, first, keys, head_dim_, [&](int64_t) { return V{} + scale_; });
    write_columns<L>(dv_, width_, dv, first, keys, head_dim_, [&](int64_t) { return V{} + 1; });
  }

 private:
  /// Rows [0, rows) of (queries, keys) as pairs of queries.
  static void round(const float* from, int64_t rows, uint32_t* to) {
    for (int64_t i = 0; i < rows; i += 2)
      for (int64_t j = 0; j < kBlock; j += L)
        simd::store(to + i / 2 * kBlock + j, rounded_pairs<L>(simd::load<V>(from + i * kBlock + j),
                                                              simd::load<V>(from + (i + 1) * kBlock + j)));
  }

  int64_t head_dim_, width_;
  float scale_;
  uint32_t *k_columns_, *v_columns_;     // pairs (width / 2, kBlock)
  uint32_t* k_;                          // pairs (kBlock / 2, width)
  uint32_t* packed_;                     // before it is transposed
  float *dk_, *dv_;                      // (width, kBlock)
  uint32_t *q_, *dout_;                  // plain (rows, width)
  uint32_t *q_columns_, *dout_columns_;  // plain (width, kBlock) of each block
  float* dq_;                            // (rows, width)
  uint32_t *p_, *ds_;                    // pairs (kBlock / 2, kBlock); dS for dQ: plain (kBlock, kBlock)
  amx::Session session_;
};

}  // namespace reprise::kernels::attention_detail
