// Launching in the emulator.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>

#include "reprise/simt/emulator/builtins.h"
#include "reprise/simt/emulator/options.h"
#include "reprise/simt/simt.h"

namespace reprise::simt {
namespace detail {

/// Error unless a GPU would take the launch.
void check_limits(const Launch& config);

/// Loads the kernel's code if this is its first launch on the device. Error where a capture forbids that.
void load(const Launch& config, const void* kernel);

/// Runs the kernel for all threads of all blocks, now.
void run_grid(const Launch& config, const std::function<void()>& kernel);

/// Gives work to the stream.
void enqueue(const Stream& stream, std::function<void()> work);

}  // namespace detail

/// Runs `kernel` on the stream. Error naming the kernel if a GPU would refuse the launch.
template <class... Parameters, class... Args>
void launch(const Launch& config, void (*kernel)(Parameters...), Args&&... args) {
  static_assert(!(std::is_reference_v<Parameters> || ...), "a kernel's parameters are copied to the device");
  detail::check_limits(config);
  detail::load(config, reinterpret_cast<const void*>(kernel));
  detail::enqueue(config.stream,
                  [config, kernel, parameters = std::tuple<Parameters...>(static_cast<Parameters>(args)...)] {
                    detail::run_grid(config, [&] { std::apply(kernel, parameters); });
                  });
}

}  // namespace reprise::simt
