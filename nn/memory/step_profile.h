// One training step, profiled: the memory over time, what ran when, and what each region saved and cost.
//
//   const rp::StepProfile with = rp::profile({.model = model, .loss = loss, .blocks = &model.h, .rows = 32}, "full");
//   for (const rp::recompute::RegionStats& region : with.regions) ...  // "h.0", "h.1"
#pragma once

#include "reprise/nn/memory/memory_report.h"
#include "reprise/nn/memory/memory_timeline.h"
#include "reprise/nn/memory/saved_bytes.h"
#include "reprise/nn/memory/step_trace.h"

namespace reprise::nn {

/// What `profile` finds.
struct StepProfile {
  std::string strategy;                           ///< as it was asked for
  MemoryTimeline timeline{};                      ///< its times and those of the slices begin together
  std::vector<StepSlice> slices{};                ///< what ran when
  std::vector<recompute::RegionStats> regions{};  ///< what each saved, kept and made anew
  double seconds = 0;  ///< until the last slice's end: the trace waits for the device at each operation
  size_t peak = 0;     ///< bytes held at most
};

/// A step of `rows` with this strategy, after one that makes what is made once. Without `update` the model is as before; its gradients are
/// dropped, and the allocator's peaks begin anew. Replays of all regions are seen, of calls of `checkpoint` in the model too.
StepProfile profile(const TrainingStepCase& step, const std::string& strategy = "none");
/// The same of a model that runs as it is set.
StepProfile profile_as_set(const TrainingStepCase& step, const std::string& name);

/// What the operations of each layer save in a step of `rows`, as the model is set.
std::vector<SavedCell> saved_by_layer(const TrainingStepCase& step);

/// Slices of one layer and phase that follow on each other, as one; replays as a whole.
std::vector<StepSlice> by_layer(const std::vector<StepSlice>& slices);

}  // namespace reprise::nn

namespace reprise {
using nn::profile;
using nn::StepPhase;
using nn::StepProfile;
using nn::StepSlice;
}  // namespace reprise
