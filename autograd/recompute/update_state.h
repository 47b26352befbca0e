// update_state: how a module changes state in forward, running statistics or a counter, so that it keeps its
// bits under checkpoints.
#pragma once

#include <functional>

namespace reprise::recompute {

/// Whether this thread is replaying a region: state that forward changes, such as running statistics, has
/// been changed by the first run already.
bool is_replaying();

/// Runs `update`, unless this thread is replaying a region: state changes in the first run alone. Nothing is
/// recorded. Regions do not count what it reads among what they captured, so they allow it to change. Error
/// if it draws from the thread's generator: later operations would draw something else in the replay. A
/// generator of its own is fine.
///
///   rp::Tensor forward(const rp::Tensor& x) override {
///     if (training()) rp::update_state([&] { average.copy_(average * 0.9 + mean(x, {0}) * 0.1); });
///     return x * scale;
///   }
void update_state(const std::function<void()>& update);

}  // namespace reprise::recompute

namespace reprise {
using recompute::update_state;
}
