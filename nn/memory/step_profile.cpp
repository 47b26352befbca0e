#include "reprise/nn/memory/step_profile.h"

#include <algorithm>

#include "reprise/nn/memory/played_step.h"

namespace reprise::nn {
namespace {

StepProfile profiled(const PlayedStep& played, const std::string& name) {
  Allocator& memory = allocator(played.device());
  played.play_parts();  // makes what is made once, such as the plan of `auto`
  memory.reset_peaks();
  StepProfile found{.strategy = name};
  std::optional<recompute::Accounting> accounting;
  std::optional<StepTrace> trace;
  std::optional<MemoryRecorder> recorder;
  const auto begin = [&] {
    accounting.emplace(recompute::ReplayClock::device);
    trace.emplace(played.device());
    recorder.emplace(played.device());
  };
  const auto end = [&] {
    found.slices = trace->finish(accounting->replays());
    found.regions = accounting->regions();
    found.timeline = recorder->finish();
    trace.reset();
    accounting.reset();
  };
  played.play_parts({.begin = begin,
                     .before_backward = [&](const Tensor& loss) { trace->begin_backward(loss); },
                     .before_update = [&] { trace->begin_update(); },
                     .end = end});
  found.peak = memory.stats().peak_held;
  for (const StepSlice& slice : found.slices) found.seconds = std::max(found.seconds, slice.end);
  memory.reset_peaks();
  return found;
}

}  // namespace

StepProfile profile(const TrainingStepCase& step, const std::string& strategy) {
  const RecomputeStrategy chosen = recompute::parse_strategy(strategy);
  const PlayedStep played("profile", step);
  check(played.has(chosen), "profile: the model has no blocks for '", strategy, "'");
  played.set(chosen);
  return profiled(played, strategy);
}

StepProfile profile_as_set(const TrainingStepCase& step, const std::string& name) {
  return profiled(PlayedStep("profile", step, PlayedStep::Blocks::others), name);
}

std::vector<SavedCell> saved_by_layer(const TrainingStepCase& step) {
  const PlayedStep played("saved_by_layer", step, PlayedStep::Blocks::others);
  std::optional<SavedBytes> saved;
  std::vector<SavedCell> cells;
  played.play_forward([&] { saved.emplace(step.model.parameters()); },
                      [&] {
                        cells = saved->cells();
                        saved.reset();
                      });
  return cells;
}

std::vector<StepSlice> by_layer(const std::vector<StepSlice>& slices) {
  std::vector<StepSlice> merged;
  for (const StepSlice& slice : slices) {
    if (slice.phase == StepPhase::replay && slice.name != "region") continue;
    const bool goes_on = !merged.empty() && merged.back().phase == slice.phase &&
                         merged.back().layer == slice.layer && slice.phase != StepPhase::replay;
    if (goes_on) {
      merged.back().end = slice.end;
      continue;
    }
    merged.push_back(slice);
    merged.back().name = slice.layer.empty() ? name_of(slice.phase) : slice.layer;
  }
  return merged;
}

}  // namespace reprise::nn
