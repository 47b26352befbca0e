// Turns as transformers' modeling_rope_utils scales them.
#include "reprise/nn/models/rope_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"
#include "reprise/core/quote.h"

namespace reprise::nn {
namespace {

using Kind = RopeScaling::Kind;

constexpr int64_t most_context = 1'000'000'000;

}  // namespace

double scaled_turn(double turn, const RopeScaling& s) {
  if (s.kind == Kind::none) return turn;
  if (s.kind == Kind::linear) return turn / s.factor;
  const double tokens = 2 * std::numbers::pi / turn, context = double(s.original_context);
  if (tokens < context / s.high_freq_factor) return turn;
  if (tokens > context / s.low_freq_factor) return turn / s.factor;
  const double fast = (context / tokens - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - fast) * turn / s.factor + fast * turn;
}

void check_rope_scaling(const char* op, const RopeScaling& s) {
  if (s.kind == Kind::none) return;
  check(s.factor > 0 && std::isfinite(s.factor), op, ": rope_scaling: a factor of ", s.factor);
  if (s.kind == Kind::linear) return;
  check(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
            std::isfinite(s.high_freq_factor) && s.original_context > 0 && s.original_context <= most_context,
        op, ": rope_scaling: low_freq_factor ", s.low_freq_factor, ", high_freq_factor ", s.high_freq_factor,
        ", original_max_position_embeddings ", s.original_context);
}

std::string to_string(const RopeScaling& s) {
  if (s.kind == Kind::none) return "none";
  if (s.kind == Kind::linear) return "linear:" + shortest(s.factor);
  return "llama3:" + shortest(s.factor) + ':' + shortest(s.low_freq_factor) + ':' +
         shortest(s.high_freq_factor) + ':' + std::to_string(s.original_context);
}

RopeScaling parse_rope_scaling(const std::string& text) {
  const std::string kind = text.substr(0, text.find(':'));
  std::vector<double> numbers;
  bool are_numbers = true;
  for (size_t at = kind.size(); at < text.size();) {
    const size_t end = std::min(text.find(':', at + 1), text.size());
    const auto number = number_in<double>(text.substr(at + 1, end - at - 1));
    are_numbers = are_numbers && number;
    numbers.push_back(number.value_or(0));
    at = end;
  }
  RopeScaling s;
  if (are_numbers && kind == "none" && numbers.empty()) return s;
  if (are_numbers && kind == "linear" && numbers.size() == 1) {
    s.kind = Kind::linear;
    s.factor = numbers[0];
    return s;
  }
  check(are_numbers && kind == "llama3" && numbers.size() == 4 && numbers[3] >= 1 &&
            numbers[3] <= double(most_context),
        "rope_scaling: ", quote(text), " is not none, linear:FACTOR or llama3:FACTOR:LOW:HIGH:CONTEXT");
  return {Kind::llama3, numbers[0], numbers[1], numbers[2], int64_t(numbers[3])};
}

}  // namespace reprise::nn
