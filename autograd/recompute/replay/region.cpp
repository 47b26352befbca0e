// The first run of a region and reading its slots.
#include "reprise/autograd/recompute/replay/region.h"

#include <atomic>

#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/recompute/replay/first_run.h"
#include "reprise/autograd/recompute/replay/replay.h"
#include "reprise/autograd/recompute/replay/replay_scope.h"

namespace reprise::recompute {

namespace {

uint64_t next_region_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

Region::Region(std::shared_ptr<Body> body, const TensorList& inputs, const std::vector<std::string>& paths,
               const CheckpointOptions& options)
    : body_(std::move(body)),
      options_(options),
      inputs_(inputs, paths, options.offload),
      captures_(inputs),
      id_(next_region_id()) {}

TensorList Region::first_run(const TensorList& inputs) {
  TensorList outputs;
  {
    autograd::InsideOp inside(
        autograd::InsideOp::Of::region);  // for the regions around, this is one operation
    FirstRun run(*this, inputs);
    std::optional<autograd::DrawRecorder> recorder;
    if (options_.preserve_rng) recorder.emplace(&drawn_);
    autograd::SavedTensorHooks hooks([&run](const Tensor& x) { return std::any(run.keep(x)); },
                                     [](const std::any& packed) {
                                       const auto& slot = std::any_cast<const std::shared_ptr<Slot>&>(packed);
                                       return slot->region->read(*slot);
                                     });
    std::shared_ptr<void> context = options_.context.forward ? options_.context.forward() : nullptr;
    outputs = body_->play(inputs);
    run.finish();
  }
  if (options_.policy) keep_results();
  return outputs;
}

// What the policy wants kept goes to the slots that read it, or whose rebuilding does. With the last of them
// it is let go.
void Region::keep_results() {
  SetDataObserver unseen(nullptr);
  std::map<ResultId, Tensor> results = ops_.take_results();
  std::map<size_t, Tensor> inner = ops_.take_inner();
  if (!ops_.is_usable()) return;
  std::map<ResultId, std::shared_ptr<KeptValue>> kept;
  auto keep = [&](const ResultId& id) {
    std::shared_ptr<KeptValue>& value = kept[id];
    if (!value) kept_[id] = value = kept_value(results.at(id), ops_.ops()[id.op]);
    return value;
  };
  std::set<ResultId> at_hand;
  for (const auto& [id, x] : results) at_hand.insert(id);
  std::vector<bool> rebuild(slots_.size());
  bool may_move = autograd::SavedTensorHooks::active();  // they may give other strides back
  for (size_t i = 0; i < slots_.size(); ++i) {
    std::shared_ptr<Slot> slot = slots_[i].lock();
    const SlotSource& source = ops_.slots()[i];
    if (!slot) continue;
    bool has_bytes = may_move ? source.of_result.is_whole() : source.of_result.is_inside();
    if (source.result && at_hand.contains(*source.result) && has_bytes) {
      slot->kept = keep(*source.result);
      slot->view = source.of_result;
    } else if (auto made = inner.find(i); made != inner.end()) {
      slot->kept = kept_value(made->second, ops_.ops()[source.op]);
      slot->view = RelativeView(made->second.view(), made->second.view());
    } else {
      rebuild[i] = true;
    }
  }
  auto reads = std::make_shared<KeptValues>();
  for (const ResultId& id : needs_of(ops_, rebuild, at_hand).reads)
    if (at_hand.contains(id)) reads->push_back(keep(id));
  for (size_t i = 0; i < slots_.size(); ++i)
    if (rebuild[i]) slots_[i].lock()->replay_reads = reads;
  if (!log_) return;
  size_t bytes = 0;
  for (const auto& [id, value] : kept) bytes += value->device_bytes();
  for (const auto& [slot, x] : inner)
    if (std::shared_ptr<Slot> alive = slots_[slot].lock()) bytes += alive->kept->device_bytes();
  log_->add_kept(bytes);
}

std::shared_ptr<KeptValue> Region::kept_value(const Tensor& x, const OpRecord& op) const {
  if (op.decision == Decision::offload) {
    check(options_.offload != nullptr, "checkpoint: the policy wants what ", op.name,
          " gives offloaded, and there is no store for it; give the checkpoint one, as its option offload");
    if (inputs_.parked()) return std::make_shared<KeptValue>(x, op.name, inputs_.parked());
  }
  return std::make_shared<KeptValue>(x, op.name);
}

Tensor Region::read(const Slot& slot) {
  if (slot.kept) return slot.view.of(slot.kept->read());
  size_t index = slot.index;
  std::shared_ptr<void>* pass = autograd::GraphTask::kept_in_pass(id_);
  if (!pass) return replay()->take(index, records_[index]);
  if (!*pass) *pass = replay();
  Tensor x = static_cast<Rebuilt*>(pass->get())->take(index, records_[index]);
  if (!complete_ && provenance_) provenance_->stands_for(x, records_[index].origin);
  return x;
}

std::shared_ptr<Rebuilt> Region::replay() {
  TensorList inputs = inputs_.rebuild();
  captures_.check_versions();
  std::lock_guard lock(mutex_);
  if (body_->is_noexcept()) return play_again(inputs, Effort::everything);
  try {
    return play_again(inputs, Effort::needed);
  } catch (const HollowRead&) {  // fn reads values outside of operations
    return play_again(inputs, Effort::everything);
  }
}

std::shared_ptr<Rebuilt> Region::play_again(const TensorList& inputs, Effort effort) {
  auto rebuilt = std::make_shared<Rebuilt>(records_.size());
  ReplayScope scope(options_.preserve_rng ? &drawn_ : nullptr, captures_, thread_, options_.context.replay);
  Replay run(*this, *rebuilt, inputs, effort);
  autograd::SavedTensorHooks hooks([&run](const Tensor& x) { return run.keep(x); },
                                   [](const std::any& x) { return std::any_cast<Tensor>(x); });
  run.play(inputs);
  return rebuilt;
}

}  // namespace reprise::recompute
