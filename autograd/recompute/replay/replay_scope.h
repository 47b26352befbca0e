// ReplayScope: the state of the thread in which a region is played again.
#pragma once

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/recompute/replay/recording.h"

namespace reprise::recompute {

/// Recording is on, generators and the thread's state are what the first run found, memory counts as
/// recompute, and nothing of the regions around is active. Everything returns to what it was when the scope
/// ends.
class ReplayScope {
 public:
  explicit ReplayScope(const Recording& first);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;

  /// Whether `leaf` is one that the first run of a region being replayed on this thread used. A backward pass
  /// that the region's body runs has added to its gradient then, and must not again.
  static bool first_run_used(const autograd::AutogradMeta& leaf);
  /// Whether the first run of a region being replayed on this thread changed x in place.
  static bool first_run_wrote(const Tensor& x);
  static bool active();

 private:
  const Captures& captures_;
  const ReplayScope* outer_;
  EnableGrad grad_;
  MemoryScope memory_{MemoryCategory::recompute};
  autograd::HideOpObservers no_observers_;
  autograd::DrawRecorder no_recorders_{nullptr};
  std::optional<autograd::RestoreGenerators> generators_;
  std::vector<std::shared_ptr<void>> thread_;
  std::shared_ptr<void> context_;
};

}  // namespace reprise::recompute
