// Options from the environment.
#include "reprise/simt/emulator/options.h"

#include <cstdlib>
#include <limits>
#include <string_view>

#include "reprise/core/error.h"
#include "reprise/core/number_in.h"

namespace reprise::simt {
namespace {

Order order_from_environment() {
  const char* text = std::getenv("REPRISE_EMULATOR_ORDER");
  std::string_view order = text ? text : "forward";
  if (order == "forward") return Order::forward;
  if (order == "reverse") return Order::reverse;
  check(order == "random", "REPRISE_EMULATOR_ORDER: needs forward, reverse or random, got '", order, "'");
  return Order::random;
}

uint64_t number_from_environment(const char* name, uint64_t otherwise, uint64_t largest) {
  const char* text = std::getenv(name);
  if (!text) return otherwise;
  std::optional<uint64_t> number = number_in<uint64_t>(text);
  check(number && *number <= largest, name, ": needs a number up to ", largest, ", got '", text, "'");
  return *number;
}

EmulatorOptions options_from_environment() {
  EmulatorOptions options;
  options.order = order_from_environment();
  options.seed = number_from_environment("REPRISE_EMULATOR_SEED", 1, std::numeric_limits<uint64_t>::max());
  options.workers = int(number_from_environment("REPRISE_EMULATOR_WORKERS", 0, 1024));
  return options;
}

}  // namespace

EmulatorOptions& emulator_options() {
  static EmulatorOptions options = options_from_environment();
  return options;
}

}  // namespace reprise::simt
