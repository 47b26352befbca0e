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

// Note [Slots of a window]
// A layer whose tokens see W keys has 2 W slots, filled from the front. Where they are full, the last of them move to the
// front: that is so once in W tokens and moves at most W of them, so that a token costs what it did, and keys stay in their
// order, in which attention adds. Which token lies in slot 0 is a function of the tokens that were seen, so that rows of
// one length remain one call.
namespace {

int64_t first_kept(int64_t tokens, int64_t window) {
  return std::max<int64_t>(0, (tokens + window - 1) / window - 2) * window;
}

}  // namespace

void KvCache::begin(Layer& layer, const Tensor& k, const Tensor& v, int64_t window) const {
  const bool is_shorter = window > 0 && window < capacity_ / 2;
  layer.window = window;
  layer.slots = is_shorter ? 2 * window : capacity_;
  const Shape shape{rows(), k.size(1), layer.slots, k.size(3)};
  layer.k = Tensor::empty(shape, k.dtype(), k.device());
  layer.v = Tensor::empty(shape, v.dtype(), v.device());
  layer.first.resize(lengths_.size());
}

TensorList KvCache::keep(Layer& layer, int64_t row, int64_t count, const Tensor& k, const Tensor& v) const {
  const int64_t before = length(row), end = before + k.size(2), window = layer.window;
  // A window hides what lies before from all the new tokens, and from a single one nothing behind.
  const int64_t seen = window > 0 ? std::max<int64_t>(before + 1 - window, 0) : 0,
                first = before == 0 ? 0 : layer.first[size_t(row)],
                next = layer.slots < capacity_ ? std::max(first, first_kept(end, window)) : 0;
  check(first <= seen, "KvCache: tokens ", seen, " to ", first - 1, " of sequence ", row,
        " are gone: a call that went beyond them was not finished by advance; clear the sequence");
  auto held = [&](const Tensor& x, int64_t from, int64_t to) {
    return slice(slice(x, 0, row, row + count), 2, from, to);
  };
  // Of keys and values before either is written, so that an OutOfMemory leaves both where they are: all that the new tokens see if
  // there are more of them than slots, else what goes to the front, if anything does.
  auto apart = [&](const Tensor& x, const Tensor& added) {
    if (next > seen) return seen < before ? concat({held(x, seen - first, before - first), added}, 2) : added;
    return next > first && next < before ? held(x, next - first, before - first).clone() : Tensor();
  };
  auto kept = [&](const Tensor& x, const Tensor& added, const Tensor& all) {
    auto move = [&](const Tensor& from) { held(x, 0, from.size(2)).copy_(from); };
    if (next > seen) {
      move(slice(all, 2, next - seen, end - seen));
      return all;
    }
    if (all.defined()) move(all);
    held(x, before - next, end - next).copy_(added);
    return held(x, seen - next, end - next);
  };
  const Tensor keys = apart(layer.k, k), values = apart(layer.v, v);
  const TensorList both{kept(layer.k, k, keys), kept(layer.v, v, values)};
  for (int64_t i = row; i < row + count; ++i) layer.first[size_t(i)] = next;
  return both;
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
  if (!kept.k.defined()) begin(kept, k, v, window);
  check(window == kept.window, "KvCache: layer ", layer, " has a window of ", kept.window, ", got ", window);
  TensorList results;
  for (int64_t i = 0, next; i < batch; i = next) {
    const int64_t row = first_row + i, before = length(row), end = before + tokens;
    check(end <= capacity_, "KvCache: ", end, " tokens, there is room for ", capacity_);
    auto is_alike = [&](int64_t other) {
      return length(other) == before && (before == 0 || kept.first[size_t(other)] == kept.first[size_t(row)]);
    };
    for (next = i + 1; next < batch && is_alike(first_row + next);) ++next;
    auto rows = [&](const Tensor& x) { return slice(x, 0, i, next); };
    const TensorList both = keep(kept, row, next - i, rows(k), rows(v));
    results.push_back(
        masked_attention(rows(q), both[0], both[1], Tensor(), {.causal = true, .window = window}));
  }
  return results.size() == 1 ? results.front() : concat(results, 0);
}

void KvCache::advance(int64_t first_row, int64_t rows, int64_t tokens) {
  for (int64_t row = first_row; row < first_row + rows; ++row) lengths_[size_t(row)] += tokens;
}

}  // namespace reprise::nn
