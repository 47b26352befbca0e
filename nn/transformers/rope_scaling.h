// RopeScaling: rotary positions that are stretched for contexts longer than a model was first trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reprise::nn {

/// rope_scaling of Hugging Face's config.json. `linear` (Chen et al. 2023) slows all turns; `llama3` (Llama 3.1) those that take
/// longer than the first context had tokens, leaves fast ones as they are, and goes from one to the other in between. `yarn` (Peng et
/// al. 2023) does so by the number of a turn among those of a head, and makes all scores larger besides.
struct RopeScaling {
  /// What is slowed.
  enum class Kind : uint8_t { none, linear, llama3, yarn };
  Kind kind = Kind::none;       ///< none: nothing, and the numbers below do not count
  double factor = 1;            ///< by which turns are slowed
  double low_freq_factor = 1;   ///< llama3: slow is a turn of more than original_context / this tokens
  double high_freq_factor = 4;  ///< llama3: fast is one of fewer than original_context / this
  /// llama3, yarn: tokens of the first training; original_max_position_embeddings.
  int64_t original_context = 8192;
  double beta_fast = 32;  ///< yarn: fast is what turns this often, or more, within original_context tokens
  double beta_slow = 1;   ///< yarn: slow is what turns this often, or less
  /// yarn: what cosines and sines are multiplied by, so that scores are by its square; 0: 0.1 ln(factor) + 1, but 1 for a
  /// factor below 1.
  double attention_factor = 0;
  bool truncate = true;  ///< yarn: the ramp from fast to slow begins and ends at whole indices i
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

/// The angles per token of a head's turns, head_dim / 2 of them: theta^(-2 i / head_dim) of turn i without scaling. Of yarn
/// theta has to be above 1.
std::vector<double> turns_of(int64_t head_dim, double theta, const RopeScaling& scaling);

/// What cosines and sines are multiplied by: 1 but of yarn.
double cosine_scale(const RopeScaling& scaling);
/// What yarn multiplies them by unless it is told: 0.1 mscale ln(factor) + 1; 1 for a factor of 1 or less.
double yarn_scale(double factor, double mscale = 1);

/// Error, which begins with `op`, on numbers of 0 or less, and unless high_freq_factor is above low_freq_factor, and beta_fast at
/// least beta_slow.
void check_rope_scaling(const char* op, const RopeScaling& scaling);

/// "none", "linear:4", "llama3:8:1:4:8192" or "yarn:4:32:1:32768:0:1": the numbers in the order of the members, of yarn
/// factor, beta_fast, beta_slow, original_context, attention_factor and truncate.
std::string to_string(const RopeScaling& scaling);
/// The same back; the last two of yarn may be left out. Error if it is none of these.
RopeScaling parse_rope_scaling(const std::string& text);

}  // namespace reprise::nn
