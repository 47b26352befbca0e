// Sampling of the next token.
#include "reprise/nn/generation/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include "reprise/core/error.h"

namespace reprise {
namespace {

std::vector<float> penalised(std::span<const float> logits, std::span<const int32_t> before, double penalty) {
  std::vector<float> result(logits.begin(), logits.end());
  if (penalty == 1) return result;
  for (int32_t id : std::set<int32_t>(before.begin(), before.end())) {
    check(id >= 0 && size_t(id) < result.size(), "sample: token ", id, " lies outside of the vocabulary of ",
          result.size());
    float& logit = result[size_t(id)];
    logit = float(logit > 0 ? double(logit) / penalty : double(logit) * penalty);
  }
  return result;
}

}  // namespace

void check_sampling(const SamplingOptions& options) {
  check(options.repetition_penalty > 0 && std::isfinite(options.repetition_penalty),
        "sample: repetition penalty must be above 0, got ", options.repetition_penalty);
  check(options.temperature >= 0 && std::isfinite(options.temperature),
        "sample: temperature must be at least 0, got ", options.temperature);
  check(options.top_k >= 0, "sample: top-k must be at least 0, got ", options.top_k);
  check(options.top_p > 0 && options.top_p <= 1, "sample: top-p must be in (0, 1], got ", options.top_p);
  check(options.min_p >= 0 && options.min_p <= 1, "sample: min-p must be in [0, 1], got ", options.min_p);
}

int32_t sample_token(std::span<const float> all_logits, const SamplingOptions& options, Generator& generator,
                     std::span<const int32_t> before) {
  check_sampling(options);
  Generator::State draw = generator.next();
  check(std::none_of(all_logits.begin(), all_logits.end(), [](float x) { return std::isnan(x); }),
        "sample: the logits are not finite");
  const std::vector<float> logits = penalised(all_logits, before, options.repetition_penalty);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Ties go to the smaller id, so that the choice does not depend on the sort.
  auto likelier = [&](int32_t a, int32_t b) {
    return logits[size_t(a)] != logits[size_t(b)] ? logits[size_t(a)] > logits[size_t(b)] : a < b;
  };
  size_t kept = options.top_k > 0 ? std::min(size_t(options.top_k), order.size()) : order.size();
  if (options.temperature == 0) kept = std::min<size_t>(kept, 1);
  std::partial_sort(order.begin(), order.begin() + std::ptrdiff_t(kept), order.end(), likelier);
  double largest = order.empty() ? -INFINITY : double(logits[size_t(order[0])]);
  check(std::isfinite(largest), "sample: the logits are not finite");
  if (options.temperature == 0) return order[0];
  std::vector<double> weight(kept);
  for (size_t i = 0; i < kept; ++i)
    weight[i] = std::exp((double(logits[size_t(order[i])]) - largest) / options.temperature);
  double total = std::accumulate(weight.begin(), weight.end(), 0.0), mass = 0;
  size_t end = 0;
  while (end < kept && mass < options.top_p * total && weight[end] >= options.min_p) mass += weight[end++];
  double target = double(to_unit_float(philox_block(draw.seed, draw.offset, 0)[0])) * mass;
  for (size_t i = 0; i < end; ++i) {
    target -= weight[i];
    if (target < 0) return order[i];
  }
  return order[end - 1];
}

}  // namespace reprise
