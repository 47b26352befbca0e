// One training step, profiled: the memory over time, what ran when, and what each region saved and cost.
#pragma once

#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/saved_bytes.h"
#include "reprise/apps/recompute/step_trace.h"

namespace reprise::apps::recompute {

struct ProfiledStep {
  std::string strategy;
  nn::MemoryTimeline timeline;  ///< its times and those of the slices begin together
  std::vector<Slice> slices;
  std::vector<reprise::recompute::RegionStats> regions;
  double seconds = 0;
};
ProfiledStep profile_step(Trainee& trainee, const Workload& workload, const std::string& strategy);

/// Slices of one layer and phase that follow on each other, as one; replays as a whole.
std::vector<Slice> by_layer(const std::vector<Slice>& slices);

/// What the layers save in a step without recompute.
std::vector<SavedCell> saved_by_layer(Trainee& trainee, const Workload& workload);

}  // namespace reprise::apps::recompute
