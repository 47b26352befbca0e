// One call of attention as its kernels see it: sizes and options, checked. The CPU's and the CUDA kernels
// share it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "reprise/kernels/attention/attention.h"

namespace reprise::kernels::attention_detail {

struct Problem {
  int64_t batch, heads, kv_heads, queries, keys, head_dim;
  bool causal;
  double scale, dropout;
  uint64_t seed, offset;

  /// Query i of the call sees keys [0, visible_keys(i)).
  constexpr int64_t visible_keys(int64_t i) const {
    return causal ? std::clamp<int64_t>(i + keys - queries + 1, 0, keys) : keys;
  }
};

/// An element is dropped if the upper 24 bits of its draw are below this: draws are multiples of 2^-24.
inline uint32_t dropout_threshold(const Problem& problem) {
  return uint32_t(std::ceil(problem.dropout * 0x1p24));
}

/// Shapes, dtypes and devices are checked, with errors that name `op`.
Problem check_attention(const char* op, const AttentionArguments& arguments);

/// The same for backward.
Problem check_attention_backward(const AttentionBackwardArguments& arguments);

}  // namespace reprise::kernels::attention_detail
