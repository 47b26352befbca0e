// Finding captured tensors and checking their versions.
#include "reprise/autograd/recompute/replay/captures.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/leaf/substitution.h"

namespace reprise::recompute {
namespace {

// The tensor whose data must stay: where another one stands for x, that one, if it still has what x has and none stands for it.
Tensor owner_of(const Tensor& x) {
  const Tensor* given = autograd::find_substitute(x);
  if (!given) return x;
  return given->storage() == x.storage() && !autograd::find_substitute(*given) ? *given : Tensor();
}

}  // namespace

Captures::Captures(const TensorList& region_inputs) {
  for (const Tensor& x : region_inputs)
    if (x.defined()) inputs_.emplace(x.storage()->id(), owner_of(x));
}

void Captures::note(const TensorList& arguments, const char* reader) {
  for (const Tensor& x : arguments) {
    if (!x.defined()) continue;
    note_capture(x, reader);
    if (!x.is_leaf() || !x.requires_grad()) continue;
    auto meta = autograd::find_meta(x);
    if (!has_leaf(*meta)) leaves_.push_back(meta);
  }
}

void Captures::note_capture(const Tensor& x, const char* reader) {
  if (!is_captured(x)) return;
  captures_.try_emplace(x.storage()->id(), Capture{x.storage(), x.version(), x.shape(), reader});
  note_detached(x);
}

bool Captures::is_captured(const Tensor& x) const {
  return x.storage()->id() <= last_before_ && !inputs_.contains(x.storage()->id());
}

void Captures::note_detached(const Tensor& x) {
  if (!is_captured(x)) return;
  const Tensor owner = owner_of(x);
  Handles& handles = handles_[x.storage()->id()];
  if (!owner.defined()) return;
  handles.known.try_emplace(&owner.shape(), owner);  // one that is gone keeps its address
  if (handles.known.size() < handles.sweep_at) return;
  std::erase_if(handles.known, [](const auto& handle) { return !handle.second.lock().defined(); });
  handles.sweep_at = 2 * handles.known.size() + 16;
}

void Captures::check_write(const autograd::OpCall& call, bool is_in_graph) const {
  const Tensor& x = call.inputs[0];
  check(
      !is_in_graph || x.storage()->id() > last_before_, call.name,
      ": in a checkpoint, fn changes a tensor of shape ", x.shape(),
      " in place that it was given or captured, and that is part of a graph: a replay would find it changed; "
      "use the out-of-place function, or rp::update_state for state");
}

void Captures::note_write(const autograd::OpCall& call) {
  const Tensor& x = call.inputs[0];
  bool is_recorded = false;  // then nothing is written: a new value takes its place
  if (autograd::grad_mode_enabled() && is_floating(x.dtype()))
    for (const Tensor& input : call.inputs) is_recorded |= input.defined() && input.requires_grad();
  check_write(call, is_recorded || x.requires_grad());
  if (!is_recorded) written_.insert(x.storage()->id());
  note({call.inputs.begin() + 1, call.inputs.end()}, call.name);
}

void Captures::check_versions() const {
  for (const auto& [id, capture] : captures_) check_version(id, capture);
}

void Captures::check_version(uint64_t id, const Capture& capture) const {
  for (const auto& [address, handle] : handles_.at(id).known) {
    Tensor x = handle.lock();
    check(!x.defined() || x.storage()->id() == id, "checkpoint: a tensor of shape ", capture.shape,
          " that fn captured got other data (set_data, the module's dtype changed, or an operation in place "
          "that was recorded in a graph) between the first run, where ",
          capture.reader, " read it, and the replay");
  }
  std::shared_ptr<Storage> storage = capture.storage.lock();
  check(!storage || storage->version() == capture.version, "checkpoint: a tensor of shape ", capture.shape,
        " that fn captured was changed in place between the first run and the replay: it is at version ",
        storage ? storage->version() : 0, ", was at ", capture.version, " when ", capture.reader,
        " read it first");
}

TensorList Captures::changed_inputs() const {
  TensorList changed;
  for (const auto& [id, input] : inputs_) {
    Tensor x = input.lock();
    if (x.defined() && x.storage()->id() != id) changed.push_back(std::move(x));
  }
  return changed;
}

bool Captures::wrote(const Tensor& x) const { return written_.contains(x.storage()->id()); }

bool Captures::has_leaf(const autograd::AutogradMeta& leaf) const {
  return std::any_of(leaves_.begin(), leaves_.end(),
                     [&](const auto& known) { return known.lock().get() == &leaf; });
}

}  // namespace reprise::recompute
