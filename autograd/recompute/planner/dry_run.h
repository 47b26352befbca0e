// DryRun: steps that are played to be measured, and leave no trace.
#pragma once

#include <vector>

#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/autograd/recompute/replay/replay_scope.h"

namespace reprise::recompute {

/// What a dry run changes of the thread, and gives back: buffers do not change as in a replay, regions are
/// not counted, generators return to where they were.
class DryRun {
 public:
  DryRun() = default;
  DryRun(const DryRun&) = delete;
  ~DryRun() {
    for (const autograd::DrawnGenerator& one : drawn_)
      (one.generator ? *one.generator : default_generator()).set_state(one.state);
  }

 private:
  Recording empty_{nullptr, {}, {}, {.preserve_rng = false}};
  ReplayScope replay_{empty_};
  Accounting uncounted_;
  std::vector<autograd::DrawnGenerator> drawn_;
  autograd::DrawRecorder recorder_{&drawn_};
};

}  // namespace reprise::recompute
