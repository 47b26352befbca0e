// Scopes that override checkpoint options from outside, and the question whether a region is being replayed.
#pragma once

#include <optional>

namespace reprise::recompute {

/// Whether this thread is replaying a region: state that forward changes, such as running statistics, has
/// been changed by the first run already.
bool is_replaying();

/// Overrides CheckpointOptions::early_stop of the checkpoints called while it lives; the innermost wins.
class EarlyStop {
 public:
  explicit EarlyStop(bool on);
  ~EarlyStop();
  EarlyStop(const EarlyStop&) = delete;

 private:
  std::optional<bool> previous_;
};

/// Overrides CheckpointOptions::debug of the checkpoints called while it lives; the innermost wins.
class CheckpointDebug {
 public:
  explicit CheckpointDebug(bool on);
  ~CheckpointDebug();
  CheckpointDebug(const CheckpointDebug&) = delete;

 private:
  std::optional<bool> previous_;
};

std::optional<bool> early_stop_override();
std::optional<bool> debug_override();

}  // namespace reprise::recompute
