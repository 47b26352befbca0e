// Cutting batches.
#include "reprise/io/text/token_batches.h"

#include <algorithm>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/core/random.h"

namespace reprise::io {
namespace {

// Keeps data order apart from what model code draws with the same seed.
constexpr uint64_t data_order_stream = 0x6461746120637570;

// The upper half of a 64 x 64 bit product: maps 64 random bits to [0, count), uniform to within count / 2^64.
uint64_t high_product(uint64_t bits, uint64_t count) {
  __extension__ using Wide = unsigned __int128;
  return uint64_t(Wide(bits) * count >> 64);
}

TokenBatch empty_batch(int64_t rows, int64_t length) {
  return {Tensor::empty({rows, length}, DType::i64), Tensor::empty({rows, length}, DType::i64)};
}

// Reads length + 1 tokens: the row, and the same moved by one.
void fill_row(const TokenDataset& data, int64_t start, int64_t row, TokenBatch& batch) {
  int64_t length = batch.tokens.size(1);
  std::vector<int64_t> tokens(size_t(length) + 1);
  data.read(start, tokens);
  std::copy(tokens.begin(), tokens.end() - 1, batch.tokens.data<int64_t>() + row * length);
  std::copy(tokens.begin() + 1, tokens.end(), batch.targets.data<int64_t>() + row * length);
}

}  // namespace

RandomCrops::RandomCrops(const TokenDataset& data, int64_t context, uint64_t seed)
    : data_(&data), context_(context), seed_(seed ^ data_order_stream) {
  check(context > 0, "random_crops: context of ", context);
  check(data.size() > context, "random_crops: ", data.size(), " tokens are too few for a context of ",
        context, " and its last target");
}

int64_t RandomCrops::start(uint64_t step, uint64_t row) const {
  auto draw = philox_block(seed_, step, row);
  auto starts = uint64_t(data_->size() - context_);
  return int64_t(high_product(uint64_t(draw[1]) << 32 | draw[0], starts));
}

TokenBatch RandomCrops::batch(int64_t step, int64_t first_row, int64_t rows) const {
  check(step >= 0 && first_row >= 0 && rows > 0, "random_crops: ", rows, " rows from row ", first_row,
        " of step ", step);
  TokenBatch batch = empty_batch(rows, context_);
  for (int64_t row = 0; row < rows; ++row) {
    fill_row(*data_, start(uint64_t(step), uint64_t(first_row + row)), row, batch);
  }
  return batch;
}

SequentialWindows::SequentialWindows(const TokenDataset& data, int64_t context, int64_t rows)
    : data_(&data), context_(context), rows_(rows) {
  check(context > 0 && rows > 0, "sequential_windows: ", rows, " rows of ", context);
  check(data.size() > 1, "sequential_windows: one token leaves nothing to predict");
  full_windows_ = predictions() / context;
  batches_ = (full_windows_ + rows - 1) / rows + (predictions() % context != 0);
}

TokenBatch SequentialWindows::batch(int64_t index) const {
  check(index >= 0 && index < batches_, "sequential_windows: batch ", index, " of ", batches_);
  int64_t first = index * rows_;
  bool is_short = first >= full_windows_;
  if (is_short) first = full_windows_;
  int64_t rows = is_short ? 1 : std::min(rows_, full_windows_ - first);
  TokenBatch batch = empty_batch(rows, is_short ? predictions() % context_ : context_);
  for (int64_t row = 0; row < rows; ++row) fill_row(*data_, (first + row) * context_, row, batch);
  return batch;
}

}  // namespace reprise::io
