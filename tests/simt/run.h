// Running small kernels in tests of the emulator.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "reprise/simt/simt.h"

namespace reprise::simt::testing {

inline constexpr unsigned full_warp = 0xffffffffu;

/// Launches the kernel, named "k", on the default stream.
template <class... Parameters, class... Args>
void run(dim3 grid, dim3 block, void (*kernel)(Parameters...), Args&&... args) {
  launch({.name = "k", .grid = grid, .block = block, .stream = Stream(Device::cuda())}, kernel,
         std::forward<Args>(args)...);
}

/// What the launch fails with; empty if it does not.
template <class... Parameters, class... Args>
std::string error_of(dim3 grid, dim3 block, void (*kernel)(Parameters...), Args&&... args) {
  try {
    run(grid, block, kernel, std::forward<Args>(args)...);
  } catch (const Error& error) { return error.what(); }
  return {};
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: '" << text << "'";
}

/// Changes the emulator's options for a scope.
class WithOptions {
 public:
  explicit WithOptions(EmulatorOptions options) : before_(emulator_options()) {
    emulator_options() = options;
  }
  ~WithOptions() { emulator_options() = before_; }
  WithOptions(const WithOptions&) = delete;
  WithOptions& operator=(const WithOptions&) = delete;

 private:
  EmulatorOptions before_;
};

/// Runs `body` in forward, reverse and two random orders.
template <class Body>
void in_all_orders(Body&& body) {
  EmulatorOptions options = emulator_options();
  for (auto [order, seed] : {std::pair<Order, uint64_t>{Order::forward, 1},
                             {Order::reverse, 1},
                             {Order::random, 1},
                             {Order::random, 2}}) {
    options.order = order;
    options.seed = seed;
    WithOptions scope(options);
    SCOPED_TRACE("order " + std::to_string(int(order)) + ", seed " + std::to_string(seed));
    body();
  }
}

}  // namespace reprise::simt::testing
