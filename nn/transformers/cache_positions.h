// Where the next tokens of cached sequences lie.
#pragma once

#include "reprise/nn/transformers/kv_cache.h"

namespace reprise::nn {

/// The positions, i64 (B, T), of tokens (B, T) that follow those in the cache's sequences [first_row, first_row + B). Error naming
/// `model` unless there are such sequences, and where one outgrows the context.
Tensor cache_positions(const char* model, const KvCache& cache, const Tensor& tokens, int64_t first_row,
                       int64_t context);

}  // namespace reprise::nn
