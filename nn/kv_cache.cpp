// Writing to the cache and attending to it, sequence by sequence: each has a length of its own.
#include "reprise/nn/kv_cache.h"

#include "reprise/autograd/grad_mode.h"

namespace reprise::nn {

KvCache::KvCache(int64_t layers, int64_t rows, int64_t capacity) : capacity_(capacity) {
  check(layers >= 1 && rows >= 1 && capacity >= 1, "KvCache: needs at least one layer, row and token, got ",
        layers, ", ", rows, " and ", capacity);
  layers_.resize(size_t(layers));
  lengths_.resize(size_t(rows));
}

Tensor KvCache::attend(int64_t layer, int64_t first_row, const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionOptions& options) {
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
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t row = first_row + i, before = length(row), end = before + tokens;
    check(end <= capacity_, "KvCache: ", end, " tokens, there is room for ", capacity_);
    auto seen = [&](const Tensor& x) { return slice(slice(x, 0, row, row + 1), 2, 0, end); };
    slice(seen(kept.k), 2, before, end).copy_(slice(k, 0, i, i + 1));
    slice(seen(kept.v), 2, before, end).copy_(slice(v, 0, i, i + 1));
    results.push_back(attention(slice(q, 0, i, i + 1), seen(kept.k), seen(kept.v), options));
  }
  return batch == 1 ? results.front() : concat(results, 0);
}

void KvCache::advance(int64_t first_row, int64_t rows, int64_t tokens) {
  for (int64_t row = first_row; row < first_row + rows; ++row) lengths_[size_t(row)] += tokens;
}

}  // namespace reprise::nn
