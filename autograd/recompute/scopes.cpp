// The thread's overrides.
#include "reprise/autograd/recompute/scopes.h"

#include <utility>

#include "reprise/autograd/replay_filter.h"

namespace reprise::recompute {
namespace {
thread_local std::optional<bool> early_stop;
thread_local std::optional<bool> debug;
}  // namespace

bool is_replaying() { return autograd::ReplayFilter::active(); }

EarlyStop::EarlyStop(bool on) : previous_(std::exchange(early_stop, on)) {}
EarlyStop::~EarlyStop() { early_stop = previous_; }

CheckpointDebug::CheckpointDebug(bool on) : previous_(std::exchange(debug, on)) {}
CheckpointDebug::~CheckpointDebug() { debug = previous_; }

std::optional<bool> early_stop_override() { return early_stop; }
std::optional<bool> debug_override() { return debug; }

}  // namespace reprise::recompute
