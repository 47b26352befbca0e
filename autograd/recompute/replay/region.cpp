// The two hooks of a region: what is saved becomes a slot, and a slot that is read is rebuilt by a replay.
#include "reprise/autograd/recompute/replay/region.h"

#include "reprise/autograd/recompute/replay/first_run.h"
#include "reprise/autograd/recompute/replay/kept.h"
#include "reprise/autograd/recompute/replay/replay.h"

namespace reprise::recompute {

TensorList Region::first_run(const TensorList& inputs) {
  const CheckpointOptions& options = recording_.options;
  OpRecorder ops(recording_);
  TensorList outputs;
  {
    autograd::InsideOp inside(
        autograd::InsideOp::Of::region);  // for the regions around, this is one operation
    FirstRun run(recording_, ops, inputs);
    std::optional<autograd::DrawRecorder> recorder;
    if (options.preserve_rng) recorder.emplace(&recording_.drawn);
    autograd::SavedTensorHooks hooks(
        [&](const Tensor& x) { return std::any(run.save(x, shared_from_this())); },
        [](const std::any& packed) {
          const auto& slot = std::any_cast<const std::shared_ptr<Slot>&>(packed);
          return slot->region->read(*slot);
        });
    std::shared_ptr<void> context = options.context.forward ? options.context.forward() : nullptr;
    outputs = recording_.body->play(inputs);
    run.finish();
  }
  if (options.policy) keep_results(recording_, ops);
  return outputs;
}

Tensor Region::read(const Slot& slot) {
  if (slot.kept) return slot.view.of(slot.kept->read());
  const SavedSlot& saved = recording_.slots[slot.index];
  std::shared_ptr<Rebuilt>* of_pass = rebuilt_.get();
  if (!of_pass) return replay()->take(slot.index, saved);
  if (!*of_pass) *of_pass = replay();
  Tensor x = (*of_pass)->take(slot.index, saved);
  if (!recording_.complete && recording_.provenance) {
    const std::optional<Provenance>& of_replay = (*of_pass)->provenance;
    recording_.provenance->stands_for(x, saved.origin, of_replay ? &*of_replay : nullptr);
  }
  return x;
}

std::shared_ptr<Rebuilt> Region::replay() {
  // A region around is played again before this one: what it changes in place may share memory with what this one views.
  for (const auto& [id, weak] : recording_.kept)
    if (std::shared_ptr<KeptValue> kept = weak.lock(); kept && kept->is_packed()) kept->read();
  TensorList inputs = recording_.inputs.rebuild();
  recording_.captures.check_versions();
  std::lock_guard lock(mutex_);
  if (recording_.body->is_noexcept()) return play_again(recording_, inputs, Effort::everything);
  try {
    HollowRead::Awaited awaited;
    return play_again(recording_, inputs, Effort::needed);
  } catch (const HollowRead&) {  // fn reads values outside of operations
    return play_again(recording_, inputs, Effort::everything);
  }
}

}  // namespace reprise::recompute
