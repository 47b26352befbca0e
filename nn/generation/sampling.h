// The choice of a next token from logits.
#pragma once

#include <cstdint>
#include <span>

#include "reprise/core/random.h"

namespace reprise {

/// Applied in this order, which is that of transformers.
struct SamplingOptions {
  /// Divides a positive logit of a token that came before, and multiplies a negative one (Keskar et al. 2019); 1: no change.
  double repetition_penalty = 1;
  double temperature = 0.8;  ///< 0: the most likely token
  int64_t top_k = 0;         ///< keep the k most likely; 0: all
  double top_p =
      1;  ///< keep the most likely that hold this probability together (Holtzman et al. 2020); 1: all
  double min_p =
      0;  ///< keep those that have this part of the largest probability (Nguyen et al. 2024); 0: all
};

/// Error on options out of range.
void check_sampling(const SamplingOptions& options);

/// Draws a token from logits (vocabulary); `before` are the ids that a repetition penalty counts. One draw of the generator
/// a call. Error if a logit is NaN, or none is finite.
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, Generator& generator,
                     std::span<const int32_t> before = {});

}  // namespace reprise
