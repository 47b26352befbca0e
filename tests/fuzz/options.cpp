// What is parsed out of options: recompute strategies, their plans, and sizes in bytes.
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/core/bytes.h"
#include "reprise/tests/fuzz/fuzz.h"

using namespace reprise;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::string_view text = fuzz::text_of(data, bytes);
  fuzz::reads(bytes, [&] { parse_bytes(text); });
  bool is_strategy = fuzz::reads(bytes, [&] { recompute::parse_strategy(text); });
  if (!is_strategy) return 0;
  recompute::Strategy strategy = recompute::parse_strategy(text);
  fuzz::require(recompute::parse_strategy(to_string(strategy)) == strategy,
                "a strategy changed when it was written");
  for (int64_t layers : {1, 12}) {
    try {
      recompute::plan_of(strategy, layers);
    } catch (const Error&) {}
  }
  return 0;
}
