// RopeScaling: rotary positions that are stretched for contexts longer than a model was first trained on.
#pragma once

#include <cstdint>
#include <string>

namespace reprise::nn {

/// rope_scaling of Hugging Face's config.json. `linear` (Chen et al. 2023) slows all turns; `llama3` (Llama 3.1) those that take
/// longer than the first context had tokens, leaves fast ones as they are, and goes from one to the other in between.
struct RopeScaling {
  /// What is slowed.
  enum class Kind : uint8_t { none, linear, llama3 };
  Kind kind = Kind::none;       ///< none: nothing, and the numbers below do not count
  double factor = 1;            ///< by which turns are slowed
  double low_freq_factor = 1;   ///< llama3: slow is a turn of more than original_context / this tokens
  double high_freq_factor = 4;  ///< llama3: fast is one of fewer than original_context / this
  int64_t original_context =
      8192;  ///< llama3: tokens of the first training; original_max_position_embeddings
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// The angle per token, of one that is `turn` without scaling.
double scaled_turn(double turn, const RopeScaling& scaling);

/// Error, which begins with `op`, on numbers of 0 or less, and unless high_freq_factor is above low_freq_factor.
void check_rope_scaling(const char* op, const RopeScaling& scaling);

/// "none", "linear:4" or "llama3:8:1:4:8192": the numbers in the order of the members.
std::string to_string(const RopeScaling& scaling);
/// The same back. Error if it is none of these.
RopeScaling parse_rope_scaling(const std::string& text);

}  // namespace reprise::nn
