// Writing to the cache and attending to it: sequences have lengths of their own, and neighbours of one length go together. One
// call for all, under a mask of their lengths, would cost 10 to 50 % more of a CPU's time for 4 sequences of unequal length, and
// the bits of a sequence would depend on the longest.
#include "reprise/nn/transformers/kv_cache.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops/attention/masked_attention.h"

namespace reprise::nn {

KvCache::KvCache(int64_t layers, int64_t rows, int64_t capacity) : capacity_(capacity) {
  check(layers >= 1 && rows >= 1 && capacity >= 1, "KvCache: needs at least one layer, row and token, got ",
        layers, ", ", rows, " and ", capacity);
  layers_.resize(size_t(layers));
  lengths_.resize(size_t(rows));
}

Tensor KvCache::attend(int64_t layer, int64_t first_row, const Tensor& q, const Tensor& k, const Tensor& v,
                       int64_t window) {
  check(!autograd::grad_mode_enabled(), "KvCache: operations are recorded; use it under NoGrad");
  const int64_t batch = q.size(0), tokens = q.size(2);
  check(first_row >= 0 && first_row + batch <= rows(), "KvCache: rows ", first_row, " to ",
        first_row + batch - 1, " of ", rows());
  check(layer >= 0 && layer < int64_t(layers_.size()), "KvCache: there is no layer ", layer, " of ",
        layers_.size());
  check(k.shape() == v.shape(), "KvCache: keys of ", k.shape(), " and values of ", v.shape());
  Layer& kept = layers_[size_t(layer)];
  if (!kept.k.defined()) {
    const Shape shape{rows(), k.size(1), capacity_, k.size(3)};
    kept.k = Tensor::empty(shape, k.dtype(), k.device());
    kept.v = Tensor::empty(shape, v.dtype(), v.device());
  }
  TensorList results;
  for (int64_t i = 0, next; i < batch; i = next) {
    const int64_t row = first_row + i, before = length(row), end = before + tokens;
    check(end <= capacity_, "KvCache: ", end, " tokens, there is room for ", capacity_);
    for (next = i + 1; next < batch && length(first_row + next) == before;) ++next;
    auto rows = [&](const Tensor& x) { return slice(x, 0, i, next); };
    auto held = [&](const Tensor& x, int64_t from) {
      return slice(slice(x, 0, row, row + next - i), 2, from, end);
    };
    held(kept.k, before).copy_(rows(k));
    held(kept.v, before).copy_(rows(v));
    // A window hides what lies before from all the new tokens, and from a single one nothing behind.
    const int64_t seen = window > 0 ? std::max<int64_t>(before + 1 - window, 0) : 0;
    const Tensor keys = held(kept.k, seen), values = held(kept.v, seen);
    results.push_back(masked_attention(rows(q), keys, values, Tensor(), {.causal = true, .window = window}));
  }
  return results.size() == 1 ? results.front() : concat(results, 0);
}

void KvCache::advance(int64_t first_row, int64_t rows, int64_t tokens) {
  for (int64_t row = first_row; row < first_row + rows; ++row) lengths_[size_t(row)] += tokens;
}

}  // namespace reprise::nn
