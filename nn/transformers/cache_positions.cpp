#include "reprise/nn/transformers/cache_positions.h"

namespace reprise::nn {

Tensor cache_positions(const char* model, const KvCache& cache, const Tensor& tokens, int64_t first_row,
                       int64_t context) {
  check(tokens.rank() == 2 && tokens.numel() > 0, model, ": tokens must be (B, T), got ", tokens.shape());
  const int64_t rows = tokens.size(0), count = tokens.size(1);
  std::vector<int64_t> positions;
  for (int64_t row = first_row; row < first_row + rows; ++row) {
    check(row >= 0 && row < cache.rows(), model, ": row ", row, " of a cache of ", cache.rows());
    const int64_t before = cache.length(row);
    check(before + count <= context, model, ": sequence of ", before + count, " tokens, the context holds ",
          context);
    for (int64_t i = 0; i < count; ++i) positions.push_back(before + i);
  }
  return Tensor::from(positions, tokens.shape(), tokens.device());
}

}  // namespace reprise::nn
