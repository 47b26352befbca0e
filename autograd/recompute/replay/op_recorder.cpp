// What each operation of a first run read, gave and saved.
#include "reprise/autograd/recompute/replay/op_recorder.h"

#include <algorithm>

#include "reprise/autograd/recompute/update_state.h"

namespace reprise::recompute {
namespace {

bool shares_memory(const Tensor& y, const TensorList& others) {
  return std::any_of(others.begin(), others.end(), [&](const Tensor& x) {
    return x.defined() && y.defined() && x.storage() == y.storage();
  });
}

// Of such results one that is kept has not the bytes of the others.
bool share_memory(const TensorList& results) {
  for (size_t i = 1; i < results.size(); ++i)
    if (shares_memory(results[i], {results.begin(), results.begin() + int64_t(i)})) return true;
  return false;
}

std::vector<Shape> shapes_of(const TensorList& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& x : tensors) shapes.push_back(x.defined() ? x.shape() : Shape());
  return shapes;
}

}  // namespace

void OpRecorder::begins(const autograd::OpCall& call) {
  cost_ = call.cost;
  replaceable_ = call.replaceable;
  versions_.clear();
  for (const Tensor& x : call.inputs) versions_.push_back(x.defined() ? x.version() : 0);
}

bool OpRecorder::changed_an_argument(const TensorList& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].version() != versions_[i]) return true;
  return false;
}

void OpRecorder::ran(const char* name, const TensorList& inputs, const TensorList& results,
                     const OpPlace& place) {
  if (!recording_.knows_ops) return;
  OpRecord op{
      .name = name, .cost = cost_, .inputs = shapes_of(inputs), .reads = std::exchange(reads_inside_, {})};
  op.place = place;
  op.first_slot = op.end_slot = recording_.slots.size();
  op.replaceable = std::exchange(replaceable_, false) && !changed_an_argument(inputs) &&
                   std::all_of(results.begin(), results.end(), [](const Tensor& y) { return y.defined(); });
  op.is_view = !results.empty() && std::all_of(results.begin(), results.end(),
                                               [&](const Tensor& y) { return shares_memory(y, inputs); });
  op.decision =
      op.replaceable && !op.is_view && !share_memory(results) ? ask(op, results) : Decision::recompute;
  inputs_.clear();
  for (const Tensor& x : inputs) {
    inputs_.push_back(x.defined() ? Place{x.storage().get(), x.view()} : Place{});
    const Produced* produced = x.defined() ? producer(x) : nullptr;
    if (!produced) continue;
    op.reads.push_back(produced->id);
    if (op.decision == Decision::recompute) hold(*produced, x);
  }
  for (const Tensor& y : results) {
    op.results.push_back(y.defined() ? y.view() : TensorView());
    op.results.back().data = nullptr;
  }
  recording_.ops.push_back(std::move(op));
  note_results(inputs, results);
  note_draws();
}

void OpRecorder::ran_inside(const TensorList& inputs) {
  if (!recording_.knows_ops) return;
  for (const Tensor& x : inputs)
    if (const Produced* produced = x.defined() ? producer(x) : nullptr) {
      (replaceable_ ? reads_inside_ : recording_.always_read).push_back(produced->id);
      hold(*produced, x);
    }
}

void OpRecorder::saved(const Tensor& x) {
  if (!recording_.knows_ops) return;
  OpRecord& op = recording_.ops.back();
  op.end_slot = recording_.slots.size();
  SlotSource& source = recording_.slots.back().source;
  source.op = recording_.ops.size() - 1;
  if (const Produced* produced = producer(x)) {
    source.result = produced->id;
    TensorView result = produced->view.layout;
    result.data = static_cast<char*>(x.storage()->data()) + produced->view.offset;
    source.of_result = RelativeView(x.view(), result);
    hold(*produced, x);
  }
  find_input(x, source);
  bool is_inner = !source.result || !source.of_result.is_inside();
  if (is_inner && !source.input && op.decision != Decision::recompute) inner_.emplace(op.end_slot - 1, x);
}

void OpRecorder::give_up() {
  recording_.knows_ops = false;
  held_.clear();
  inner_.clear();
}

std::map<ResultId, Tensor> OpRecorder::take_results() {
  for (const auto& [address, produced] : produced_) {
    auto held = held_.find(produced.id);  // changed in place since: the replay does it again
    if (held != held_.end() && held->second.version() != produced.version) held_.erase(held);
  }
  produced_.clear();
  inputs_.clear();
  return std::exchange(held_, {});
}

const OpRecorder::Produced* OpRecorder::producer(const Tensor& x) const {
  auto found = produced_.find(x.storage().get());
  bool is_it = found != produced_.end() && found->second.storage.lock() == x.storage();
  return is_it ? &found->second : nullptr;
}

// An argument that shares the memory may lie elsewhere in a replay, or have other strides.
void OpRecorder::find_input(const Tensor& x, SlotSource& source) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].storage != x.storage().get()) continue;
    RelativeView view(x.view(), inputs_[i].view);
    if (!view.is_whole() && (source.input || !view.is_inside())) continue;
    source.input = i;
    source.of_input = view;
    if (view.is_whole()) return;
  }
}

Decision OpRecorder::ask(const OpRecord& op, const TensorList& results) const {
  const Policy& policy = recording_.options.policy;
  if (!policy) return Decision::recompute;
  return policy({op.name, op.inputs, shapes_of(results), op.cost, is_replaying()});
}

void OpRecorder::note_results(const TensorList& inputs, const TensorList& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& y = results[i];
    if (y.defined() && !shares_memory(y, inputs)) note_result(i, y);
  }
}

void OpRecorder::note_result(size_t index, const Tensor& y) {
  const std::shared_ptr<Storage>& storage = y.storage();
  TensorView start = y.view();
  start.data = storage->data();
  produced_[storage.get()] = {
      {recording_.ops.size() - 1, index}, storage, y.version(), RelativeView(y.view(), start)};
}

void OpRecorder::overwrote(const Tensor& y) {
  if (!recording_.knows_ops) return;
  OpRecord& op = recording_.ops.back();
  op.is_view = false;
  op.replaceable = true;
  op.decision = ask(op, {y});
  note_result(0, y);
}

bool OpRecorder::may_keep(const Tensor& x) const {
  const Produced* produced = producer(x);
  return produced && recording_.ops[produced->id.op].decision != Decision::recompute;
}

void OpRecorder::note_draws() {
  for (size_t i = 0; i < recording_.drawn.size(); ++i) {
    Generator::State now = recording_.drawn[i].resolve().state();
    if (i < drawn_states_.size() && drawn_states_[i] == now) continue;
    drawn_states_.resize(recording_.drawn.size());
    drawn_states_[i] = now;
    recording_.ops.back().drawn.push_back({recording_.drawn[i].generator, now});
  }
}

void OpRecorder::hold(const Produced& produced, const Tensor& x) {
  if (recording_.ops[produced.id.op].decision == Decision::recompute || held_.contains(produced.id)) return;
  TensorView view = produced.view.layout;
  view.data = static_cast<char*>(x.storage()->data()) + produced.view.offset;
  held_.emplace(produced.id, x.alias(view));
}

}  // namespace reprise::recompute
