// Which results are kept, and reading them.
#include "reprise/autograd/recompute/replay/kept.h"

#include "reprise/autograd/recompute/replay/needs.h"

namespace reprise::recompute {
namespace {

std::shared_ptr<KeptValue> kept_value(const Recording& recording, const Tensor& x, const OpRecord& op) {
  if (op.decision == Decision::offload) {
    check(recording.options.offload != nullptr, "checkpoint: the policy wants what ", op.name,
          " gives offloaded, and there is no store for it; give the checkpoint one, as its option offload");
    if (const auto& store = recording.inputs.offloaded())
      return std::make_shared<KeptValue>(x, op.name, store);
  }
  return std::make_shared<KeptValue>(x, op.name);
}

}  // namespace

KeptValue::InPass::~InPass() {
  std::shared_ptr<KeptValue> alive = value.lock();
  if (!alive) return;
  std::lock_guard lock(alive->mutex_);
  alive->unpacked_ = Tensor();
}

Tensor KeptValue::read() {
  if (store_) return store_->fetch(place_);
  std::lock_guard lock(mutex_);
  if (!saved_.is_packed()) return saved_.unpack(nullptr, op_name_);
  if (unpacked_.defined()) return unpacked_;
  unpacked_ = saved_.unpack(nullptr, op_name_);
  if (InPass* pass = in_pass_.get()) pass->value = weak_from_this();
  return unpacked_;
}

void keep_results(Recording& recording, OpRecorder& ops) {
  SetDataObserver unseen(nullptr);
  std::map<ResultId, Tensor> results = ops.take_results();
  std::map<size_t, Tensor> inner = ops.take_inner();
  if (!recording.knows_ops) return;
  std::map<ResultId, std::shared_ptr<KeptValue>> kept;
  auto keep = [&](const ResultId& id) {
    std::shared_ptr<KeptValue>& value = kept[id];
    if (!value) recording.kept[id] = value = kept_value(recording, results.at(id), recording.ops[id.op]);
    return value;
  };
  std::set<ResultId> at_hand;
  for (const auto& [id, x] : results) at_hand.insert(id);
  std::vector<SavedSlot>& slots = recording.slots;
  std::vector<std::shared_ptr<Slot>> rebuild(slots.size());  // null: not this one
  std::vector<bool> is_rebuilt(slots.size());
  size_t inner_bytes = 0;
  bool may_move = autograd::SavedTensorHooks::active();  // they may give other strides back
  for (size_t i = 0; i < slots.size(); ++i) {
    std::shared_ptr<Slot> slot = slots[i].in_graph.lock();
    const SlotSource& source = slots[i].source;
    if (!slot) continue;
    bool has_bytes = may_move ? source.of_result.is_whole() : source.of_result.is_inside();
    if (source.result && at_hand.contains(*source.result) && has_bytes) {
      slot->kept = keep(*source.result);
      slot->view = source.of_result;
    } else if (auto made = inner.find(i); made != inner.end()) {
      slot->kept = kept_value(recording, made->second, recording.ops[source.op]);
      slot->view = RelativeView(made->second.view(), made->second.view());
      inner_bytes += slot->kept->device_bytes();
    } else {
      rebuild[i] = slot;
      is_rebuilt[i] = true;
    }
  }
  auto reads = std::make_shared<KeptValues>();
  for (const ResultId& id : needs_of(recording, is_rebuilt, at_hand).reads)
    if (at_hand.contains(id)) reads->push_back(keep(id));
  for (const std::shared_ptr<Slot>& slot : rebuild)
    if (slot) slot->replay_reads = reads;
  if (!recording.stats) return;
  size_t bytes = inner_bytes;
  for (const auto& [id, value] : kept) bytes += value->device_bytes();
  recording.stats->add_kept(bytes);
}

}  // namespace reprise::recompute
