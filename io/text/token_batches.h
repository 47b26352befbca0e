// Batches of a TokenDataset: random crops to train on, and one pass over all of it to evaluate on.
#pragma once

#include <cstdint>

#include "reprise/core/tensor.h"
#include "reprise/io/text/token_dataset.h"

namespace reprise::io {

/// What a language model reads and what it should say: targets[b, t] is the token after tokens[b, t].
struct TokenBatch {
  Tensor tokens;   ///< i64 (B, T)
  Tensor targets;  ///< i64 (B, T)
};

/// Rows that start at random positions, as in nanoGPT. Row r of step s is a pure function of (seed, s, r):
/// training resumes exactly from the step alone, and rows are the same however they are dealt out. With B
/// rows a micro-batch, micro-step m on rank k of n takes the rows from (m * n + k) * B.
class RandomCrops {
 public:
  /// `data` must outlive this. Error if it is shorter than one row of `context` tokens and its last target.
  RandomCrops(const TokenDataset& data, int64_t context, uint64_t seed);
  RandomCrops(const TokenDataset&& data, int64_t context, uint64_t seed) = delete;  ///< it would be gone

  /// The position in the data of the first token of a row.
  int64_t start(uint64_t step, uint64_t row) const;
  /// Rows `first_row` to `first_row + rows` of a step, on the CPU. Error if step or row is below 0.
  TokenBatch batch(int64_t step, int64_t first_row, int64_t rows) const;

 private:
  const TokenDataset* data_;
  int64_t context_;
  uint64_t seed_;
};

/// Windows side by side, so that every token but the first is predicted exactly once. The last window may be
/// shorter and then is a batch of its own.
class SequentialWindows {
 public:
  /// `data` must outlive this. Error if it holds fewer than two tokens.
  SequentialWindows(const TokenDataset& data, int64_t context, int64_t rows);
  SequentialWindows(const TokenDataset&& data, int64_t context, int64_t rows) = delete;  ///< it would be gone

  int64_t batches() const { return batches_; }  ///< of one pass, the short one counted
  /// Tokens that one pass predicts: all but the first.
  int64_t predictions() const { return data_->size() - 1; }
  /// Batch `index` of `batches()`: up to `rows` full windows, or the short last one. Weigh its mean loss by
  /// its numel.
  TokenBatch batch(int64_t index) const;

 private:
  const TokenDataset* data_;
  int64_t context_, rows_, full_windows_, batches_;
};

}  // namespace reprise::io
