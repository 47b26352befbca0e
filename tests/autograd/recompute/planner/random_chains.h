// Chains of random stages with whole numbers for seconds and bytes.
#pragma once

#include <random>

#include "reprise/autograd/recompute/planner/chain.h"

namespace reprise::testing {

inline recompute::Stage random_stage(std::mt19937& random) {
  auto below = [&](uint32_t end) { return int64_t(random() % end); };
  bool has_parameters = below(3) == 0, stops_early = below(2) == 0;
  return {.forward_seconds = double(5 + below(20)),
          .backward_seconds = double(1 + below(40)),
          .saved_bytes = below(100),
          .boundary_bytes = 20 + below(30),
          .workspace_forward_bytes = below(20),
          .workspace_unsaved_bytes = below(4) == 0 ? below(400) : below(40),  // may be what decides
          .workspace_backward_bytes = below(60),
          .gradient_bytes = has_parameters ? below(20) : 0,
          .held_gradient_bytes = has_parameters ? below(20) : 0,
          .kept_bytes = has_parameters ? below(10) : 0,
          .early_stop_seconds = double(stops_early ? below(5) : 0),
          .early_stop_bytes = stops_early ? below(20) : 0};
}

inline recompute::Chain random_chain(int64_t n, std::mt19937& random) {
  recompute::Chain chain{.base_bytes = int64_t(random() % 50), .before = random_stage(random)};
  for (int64_t i = 0; i < n; ++i) chain.stages.push_back(random_stage(random));
  chain.after = random_stage(random);
  return chain;
}

/// As a UNet's: skips from the first stages to the last ones.
inline recompute::Chain random_chain_with_skips(int64_t n, std::mt19937& random) {
  recompute::Chain chain = random_chain(n, random);
  for (int64_t i = 0, to = n - 1; i + 1 < to; ++i, --to)
    if (random() % 3 > 0) {
      chain.stages[size_t(i)].skip_to = to;
      chain.stages[size_t(i)].boundary_bytes += int64_t(random() % 200);  // may be what decides
    }
  return chain;
}

}  // namespace reprise::testing
