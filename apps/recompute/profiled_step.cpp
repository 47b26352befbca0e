// Running the steps that are profiled.
#include "reprise/apps/recompute/profiled_step.h"

namespace reprise::apps::recompute {

ProfiledStep profile_step(Trainee& trainee, const Workload& workload, const std::string& strategy) {
  Batch batch = workload.batch(0, workload.rows);
  Prepared prepared = prepare(trainee, strategy, batch);
  reprise::recompute::Accounting accounting(reprise::recompute::ReplayClock::device);
  StepTrace trace(workload.device);
  auto observe = [&trace] { return trace.observe_replay(); };
  prepared.blocks.options.context.replay = observe;
  if (prepared.predictor) prepared.predictor->options.context.replay = observe;
  trainee.set_recompute(prepared);
  nn::MemoryRecorder recorder(workload.device);
  {
    Tensor loss = trainee.forward(0, batch);
    trace.begin_backward(loss);
    loss.backward();
  }
  trace.begin_update();
  trainee.update();
  ProfiledStep profiled{strategy, {}, trace.finish(accounting.replays()), accounting.regions()};
  profiled.timeline = recorder.finish();
  trainee.set_recompute(prepared_for("none", workload));  // the trace ends here
  for (const Slice& slice : profiled.slices) profiled.seconds = std::max(profiled.seconds, slice.end);
  return profiled;
}

std::vector<Slice> by_layer(const std::vector<Slice>& slices) {
  std::vector<Slice> merged;
  for (const Slice& slice : slices) {
    if (slice.phase == Phase::replay && slice.name != "region") continue;
    bool goes_on = !merged.empty() && merged.back().phase == slice.phase &&
                   merged.back().layer == slice.layer && slice.phase != Phase::replay;
    if (goes_on) {
      merged.back().end = slice.end;
      continue;
    }
    merged.push_back(slice);
    merged.back().name = slice.layer.empty() ? name_of(slice.phase) : slice.layer;
  }
  return merged;
}

std::vector<SavedCell> saved_by_layer(Trainee& trainee, const Workload& workload) {
  trainee.set_recompute(prepared_for("none", workload));
  Batch batch = workload.batch(0, workload.rows);
  SavedBytes saved(trainee.model.module->parameters());
  trainee.forward(0, batch);
  return saved.cells();
}

}  // namespace reprise::apps::recompute
