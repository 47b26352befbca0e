// The scopes of a thread.
#include "reprise/autograd/amp/autocast.h"

#include <exception>
#include <utility>
#include <vector>

#include "reprise/core/error.h"

namespace reprise::amp {

constinit thread_local AutocastState detail::state{};

namespace {

struct OfThread {
  Autocast* innermost = nullptr;
  std::vector<std::function<void()>> at_end;
};

OfThread& of_thread() {
  thread_local OfThread one;
  return one;
}

}  // namespace

Autocast::Autocast(Device device, DType dtype, const AutocastOptions& options) {
  check(dtype == DType::bf16 || dtype == DType::f16, "autocast: needs bf16 or f16, got ", dtype,
        "; to switch it off, enabled = false");
  check_device(device);
  AutocastState state = detail::state;
  AutocastState::OfDevice& own = state.devices[size_t(device.type)];
  own = {options.enabled ? std::optional(dtype) : std::nullopt, options.weights, options.norms};
  state.any = false;
  for (const AutocastState::OfDevice& each : state.devices) state.any |= each.dtype.has_value();
  enter(state);
}

Autocast::Autocast(const AutocastState& state) { enter(state); }

void Autocast::enter(const AutocastState& state) {
  OfThread& here = of_thread();
  outer_ = std::exchange(detail::state, state);
  outer_scope_ = std::exchange(here.innermost, this);
  thread_ = &here;
}

Autocast::~Autocast() noexcept(false) {
  OfThread& here = of_thread();
  const bool in_order = thread_ == &here && here.innermost == this;
  if (!in_order) {
    if (std::uncaught_exceptions() > 0) return;
    throw Bug(thread_ == &here ? "autocast: a scope ended before one inside it"
                               : "autocast: a scope ended on another thread than it began on");
  }
  detail::state = outer_;
  here.innermost = outer_scope_;
  if (here.innermost) return;
  for (const std::function<void()>& call : std::exchange(here.at_end, {})) call();
}

std::optional<DType> autocast_dtype(Device device) {
  const AutocastState& state = detail::state;
  return state.any ? state.of(device).dtype : std::nullopt;
}

void when_autocast_ends(std::function<void()> call) { of_thread().at_end.push_back(std::move(call)); }

}  // namespace reprise::amp
