// Turns as transformers' modeling_rope_utils scales them.
#include "reprise/nn/transformers/rope_scaling.h"

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

// By linear and llama3, which look at one turn alone.
double scaled_turn(double turn, const RopeScaling& s) {
  if (s.kind == Kind::none) return turn;
  if (s.kind == Kind::linear) return turn / s.factor;
  const double tokens = 2 * std::numbers::pi / turn, context = double(s.original_context);
  if (tokens < context / s.high_freq_factor) return turn;
  if (tokens > context / s.low_freq_factor) return turn / s.factor;
  const double fast = (context / tokens - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - fast) * turn / s.factor + fast * turn;
}

// Of the turns of a head: the last one that stays as it is, and the first one that is slowed by the whole factor.
struct Ramp {
  double first, last;
  double at(double i) const { return std::clamp((i - first) / (last - first), 0.0, 1.0); }
};

// transformers' _compute_yarn_parameters.
Ramp yarn_ramp(int64_t head_dim, double theta, const RopeScaling& s) {
  // The turn, as a number that need not be whole, that goes round so often within the first context.
  auto turn_of = [&](double rounds) {
    const double tokens = double(s.original_context) / rounds;
    return double(head_dim) * std::log(tokens / (2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double first = turn_of(s.beta_fast), last = turn_of(s.beta_slow);
  if (s.truncate) first = std::floor(first), last = std::ceil(last);
  first = std::max(first, 0.0), last = std::min(last, double(head_dim - 1));
  const double least = 0.001;
  return {first, first == last ? last + least : last};
}

}  // namespace

std::vector<double> turns_of(int64_t head_dim, double theta, const RopeScaling& s) {
  const bool is_yarn = s.kind == Kind::yarn;
  const Ramp ramp = is_yarn ? yarn_ramp(head_dim, theta, s) : Ramp{0, 1};
  std::vector<double> turns;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    const double turn = std::pow(theta, -2.0 * double(i) / double(head_dim)), slow = ramp.at(double(i));
    turns.push_back(is_yarn ? slow * turn / s.factor + (1 - slow) * turn : scaled_turn(turn, s));
  }
  return turns;
}

double cosine_scale(const RopeScaling& s) {
  if (s.kind != Kind::yarn) return 1;
  if (s.attention_factor > 0) return s.attention_factor;
  return yarn_scale(s.factor);
}

double yarn_scale(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

void check_rope_scaling(const char* op, const RopeScaling& s) {
  if (s.kind == Kind::none) return;
  check(s.factor > 0 && std::isfinite(s.factor), op, ": rope_scaling: a factor of ", s.factor);
  if (s.kind == Kind::linear) return;
  const bool has_context = s.original_context > 0 && s.original_context <= most_context;
  if (s.kind == Kind::yarn) {
    check(s.beta_slow > 0 && s.beta_fast >= s.beta_slow && std::isfinite(s.beta_fast) &&
              s.attention_factor >= 0 && std::isfinite(s.attention_factor) && has_context,
          op, ": rope_scaling: beta_fast ", s.beta_fast, ", beta_slow ", s.beta_slow, ", attention_factor ",
          s.attention_factor, ", original_max_position_embeddings ", s.original_context);
    return;
  }
  check(s.low_freq_factor > 0 && s.high_freq_factor > s.low_freq_factor &&
            std::isfinite(s.high_freq_factor) && has_context,
        op, ": rope_scaling: low_freq_factor ", s.low_freq_factor, ", high_freq_factor ", s.high_freq_factor,
        ", original_max_position_embeddings ", s.original_context);
}

std::string to_string(const RopeScaling& s) {
  auto joined = [](const char* kind, std::initializer_list<double> numbers) {
    std::string text = kind;
    for (double number : numbers) text += ':' + shortest(number);
    return text;
  };
  const auto context = double(s.original_context);  // below 2^53
  switch (s.kind) {
    case Kind::none:
      return "none";
    case Kind::linear:
      return joined("linear", {s.factor});
    case Kind::llama3:
      return joined("llama3", {s.factor, s.low_freq_factor, s.high_freq_factor, context});
    case Kind::yarn:
      return joined("yarn",
                    {s.factor, s.beta_fast, s.beta_slow, context, s.attention_factor, double(s.truncate)});
  }
  throw Bug("rope_scaling: unknown kind");
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
  const size_t count = numbers.size();
  auto is = [&](const char* name, size_t least, size_t most) {
    return are_numbers && kind == name && count >= least && count <= most;
  };
  RopeScaling s;
  if (is("none", 0, 0)) return s;
  if (is("linear", 1, 1)) {
    s.kind = Kind::linear;
    s.factor = numbers[0];
    return s;
  }
  const bool is_yarn = is("yarn", 4, 6);
  const bool has_context = count >= 4 && numbers[3] >= 1 && numbers[3] <= double(most_context);
  check((is_yarn || is("llama3", 4, 4)) && has_context, "rope_scaling: ", quote(text),
        " is not none, linear:FACTOR, llama3:FACTOR:LOW:HIGH:CONTEXT or "
        "yarn:FACTOR:FAST:SLOW:CONTEXT[:ATTENTION[:TRUNCATE]]");
  s.kind = is_yarn ? Kind::yarn : Kind::llama3;
  s.factor = numbers[0];
  s.original_context = int64_t(numbers[3]);
  (is_yarn ? s.beta_fast : s.low_freq_factor) = numbers[1];
  (is_yarn ? s.beta_slow : s.high_freq_factor) = numbers[2];
  if (count > 4) s.attention_factor = numbers[4];
  if (count > 5) s.truncate = numbers[5] != 0;
  return s;
}

}  // namespace reprise::nn
