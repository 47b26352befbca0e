// ReplayScope: the state of the thread in which a region is played again.
#pragma once

#include "reprise/autograd/draw.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/checkpoint.h"

namespace reprise::recompute {

/// Recording is on, generators are where the first run found them, memory counts as recompute, and nothing of
/// the regions around is active. Everything returns to what it was when the scope ends.
class ReplayScope {
 public:
  /// `drawn`: null leaves the generators alone.
  ReplayScope(const std::vector<autograd::DrawnGenerator>* drawn, const ScopeFactory& context);
  ~ReplayScope();
  ReplayScope(const ReplayScope&) = delete;

 private:
  EnableGrad grad_;
  MemoryScope memory_{MemoryCategory::recompute};
  autograd::HideOpObservers no_observers_;
  autograd::DrawRecorder no_recorders_{nullptr};
  std::optional<autograd::RestoreGenerators> generators_;
  std::shared_ptr<void> context_;
};

}  // namespace reprise::recompute
