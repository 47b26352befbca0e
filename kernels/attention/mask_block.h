// Blocks of a mask on the CPU: what it adds to scores.
#pragma once

#include <limits>
#include <type_traits>

#include "reprise/kernels/attention/cpu_tile.h"

namespace reprise::kernels::attention_detail {

/// (T_q, T_k) of one head; an absent mask stays absent.
inline TensorView mask_of_head(const TensorView& mask, int64_t b, int64_t h) {
  return mask ? select(select(mask, 0, b), 0, h) : TensorView();
}

/// What a mask does to a block of scores: hides all, adds something or hides some, or leaves all as they are.
enum class MaskBlock : uint8_t { hides_all, changes, changes_none };

/// Integers of the size of a vector's lanes: bits of numbers, and what comparisons give.
template <class C, int L>
using MaskBits = decltype(simd::Vector<C, L>{} < simd::Vector<C, L>{});

/// What L numbers of a row of a mask, of which `count` are left, add to scores, as bits; -inf hides a key, as those behind
/// the end are.
template <class C, int L, class T>
[[gnu::always_inline]] inline MaskBits<C, L> added_to_scores(const T* from, int64_t stride, int64_t count) {
  using V = simd::Vector<C, L>;
  using Bits = MaskBits<C, L>;
  const Bits hidden = reinterpret_cast<Bits>(V{} - std::numeric_limits<C>::infinity()),
             exists = first_lanes<V>(count);
  T side_by_side[L] = {};
  if (stride != 1 || count < L) {
    for (int i = 0; i < L && i < count; ++i) side_by_side[i] = from[i * stride];
    from = side_by_side;
  }
  if constexpr (std::is_same_v<T, bool>) {
    // Step by step, as g++ 12 widens bytes to words lane by lane.
    const auto halves =
        __builtin_convertvector(simd::load<simd::Vector<uint8_t, L>>(from), simd::Vector<uint16_t, L>);
    return hidden & ~(Bits(__builtin_convertvector(halves, Bits) != 0) & exists);
  } else {
    const V numbers = simd::load_row<C, L>(from, L);
    const Bits hides = Bits(numbers <= V{} + C(highest_that_hides)) | ~exists;
    return (reinterpret_cast<Bits>(numbers) & ~hides) | (hidden & hides);
  }
}

/// Row by row; see load_mask_block.
template <class C, int L, class T>
[[gnu::always_inline]] inline MaskBlock load_mask_rows(const TensorView& mask, int64_t first_query,
                                                       int64_t queries, int64_t first_key, int64_t keys,
                                                       C* added) {
  using V = simd::Vector<C, L>;
  using Bits = MaskBits<C, L>;
  const Bits hidden = reinterpret_cast<Bits>(V{} - std::numeric_limits<C>::infinity());
  const int64_t query_stride = mask.stride(0), key_stride = mask.stride(1);
  const T* from = mask.as<T>() + first_query * query_stride + first_key * key_stride;
  Bits seen{}, changed{};  // not 0 in lanes where some number does not hide, where some is not 0
  for (int64_t i = 0; i < queries; ++i, from += query_stride) {
    C* to = added + i * kBlock;
    for (int64_t j = 0; j < keys; j += L) {
      const Bits bits = i > 0 && query_stride == 0
                            ? simd::load<Bits>(added + j)
                            : added_to_scores<C, L>(from + j * key_stride, key_stride, keys - j);
      seen |= bits ^ hidden;
      changed |= bits & first_lanes<V>(keys - j);
      simd::store(to + j, bits);
    }
    std::fill(to + round_up(keys, L), to + kBlock, -std::numeric_limits<C>::infinity());
  }
  std::fill(added + queries * kBlock, added + kBlock * kBlock, -std::numeric_limits<C>::infinity());
  bool sees_any = false, changes_any = false;
  for (int lane = 0; lane < L; ++lane) sees_any |= seen[lane] != 0, changes_any |= changed[lane] != 0;
  if (!sees_any) return MaskBlock::hides_all;
  return changes_any ? MaskBlock::changes : MaskBlock::changes_none;
}

/// What the mask (T_q, T_k) adds to the scores of some queries and keys, as rows of kBlock keys, with -inf behind and
/// below.
template <class C, int L>
[[gnu::always_inline]] inline MaskBlock load_mask_block(const TensorView& mask, int64_t first_query,
                                                        int64_t queries, int64_t first_key, int64_t keys,
                                                        C* added) {
  if (mask.dtype == DType::boolean)
    return load_mask_rows<C, L, bool>(mask, first_query, queries, first_key, keys, added);
  MaskBlock does{};
  dispatch_floating(mask.dtype, "attention", [&]<class T>() {
    does = load_mask_rows<C, L, T>(mask, first_query, queries, first_key, keys, added);
  });
  return does;
}

}  // namespace reprise::kernels::attention_detail
