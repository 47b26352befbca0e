// Sampling of the next token: temperature, top-k, top-p (Holtzman et al. 2020).
#pragma once

#include <cstdint>
#include <span>

#include "reprise/core/random.h"

namespace reprise::apps {

struct SamplingOptions {
  double temperature = 0.8;  ///< 0: the most likely token
  int64_t top_k = 0;         ///< keep the k most likely; 0: all
  double top_p = 1;          ///< keep the most likely that hold this probability together; 1: all
};

/// Error on options out of range.
void check_sampling(const SamplingOptions& options);

/// Draws a token from logits. One draw of the generator a call. Error if no logit is finite.
int32_t sample_token(std::span<const float> logits, const SamplingOptions& options, Generator& generator);

}  // namespace reprise::apps
