// KvCache: the keys and values of the tokens that a transformer has seen, so that each further token is computed alone.
#pragma once

#include <vector>

#include "reprise/autograd/ops.h"
#include "reprise/nn/transformers/rotary_tables.h"

namespace reprise::nn {

/// The keys and values of some sequences, which may have different lengths. Used outside of recording only: what it holds has no gradient.
class KvCache {
 public:
  /// Room for `capacity` tokens of each of `rows` sequences in `layers` layers. The memory is taken as a layer writes first,
  /// in the dtype of its keys: of a layer with a window, for twice as many tokens as that has, if these are fewer. Error
  /// unless all are at least 1.
  KvCache(int64_t layers, int64_t rows, int64_t capacity);

  int64_t rows() const { return int64_t(lengths_.size()); }  ///< how many sequences it has room for
  int64_t capacity() const { return capacity_; }             ///< how many tokens of each may be seen
  /// Tokens of a sequence that all layers have seen; 0 at first. `row` is not checked.
  int64_t length(int64_t row) const { return lengths_[size_t(row)]; }

  /// The attention of new tokens of the sequences [first_row, first_row + B) in layer `layer`: q, k, v (B, H or H_kv, T, D)
  /// -> (B, H, T, D). Each new token sees those before it, or with a `window`, always the same of a layer, itself and the window - 1
  /// before it; of k and v is kept what later tokens see. Neighbours of equal length are one call of attention; the bits of a
  /// sequence do not depend on those beside it.
  Tensor attend(int64_t layer, int64_t first_row, const Tensor& q, const Tensor& k, const Tensor& v,
                int64_t window = 0);
  /// All layers have seen `tokens` more of these sequences.
  void advance(int64_t first_row, int64_t rows, int64_t tokens);
  /// Forgets a sequence.
  void clear(int64_t row) { lengths_[size_t(row)] = 0; }

 private:
  struct Layer {
    int64_t window = 0, slots = 0;
    Tensor k, v;                 // (rows, H_kv, slots, D)
    std::vector<int64_t> first;  // by row: the token in slot 0
  };

  // Takes the memory.
  void begin(Layer& layer, const Tensor& k, const Tensor& v, int64_t window) const;
  // Keeps new keys and values of `count` rows of equal length; those that the new tokens see, these among them.
  TensorList keep(Layer& layer, int64_t row, int64_t count, const Tensor& k, const Tensor& v) const;

  int64_t capacity_;
  std::vector<int64_t> lengths_;
  std::vector<Layer> layers_;
};

/// Where a layer finds its part of a cache.
struct KvPlace {
  KvCache& cache;         ///< of all layers
  int64_t layer;          ///< its number among them, from 0
  int64_t first_row;      ///< the sequence of the cache that row 0 of x goes on with
  RotaryAngles angles{};  ///< of the positions of x, for layers with rotary positions: RotaryTables::at
};

}  // namespace reprise::nn
