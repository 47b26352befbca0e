// Following results from operation to operation by the storage they lie in.
#include "reprise/autograd/recompute/op_log.h"

#include <algorithm>

#include "reprise/autograd/recompute/replay_scope.h"

namespace reprise::recompute {
namespace {

bool shares_memory(const Tensor& y, const TensorList& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Tensor& x) { return x && x.storage() == y.storage(); });
}

std::vector<Shape> shapes_of(const TensorList& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& x : tensors) shapes.push_back(x ? x.shape() : Shape());
  return shapes;
}

}  // namespace

RelativeView::RelativeView(const TensorView& view, const void* base)
    : layout(view), offset(static_cast<const char*>(view.data) - static_cast<const char*>(base)) {
  layout.data = nullptr;
}

Tensor RelativeView::of(const Tensor& base) const {
  TensorView view = layout;
  view.data = static_cast<char*>(base.view().data) + offset;
  return base.alias(view);
}

void OpLog::ran(const char* name, const TensorList& inputs, const TensorList& results, size_t trace_size) {
  if (!usable_) return;
  OpRecord op{.name = name, .inputs = shapes_of(inputs), .reads = std::exchange(reads_inside_, {})};
  op.trace_end = trace_size;
  op.first_slot = op.end_slot = slots_.size();
  op.replaceable = std::exchange(asked_, false);
  op.is_view = !results.empty() && std::all_of(results.begin(), results.end(),
                                               [&](const Tensor& y) { return shares_memory(y, inputs); });
  op.decision = op.replaceable && !op.is_view ? ask(op, results) : Decision::recompute;
  inputs_.clear();
  for (const Tensor& x : inputs) {
    inputs_.push_back(x ? Place{x.storage().get(), x.view().data} : Place{});
    const Produced* produced = x ? producer(x) : nullptr;
    if (!produced) continue;
    op.reads.push_back(produced->id);
    if (op.decision == Decision::recompute) hold(*produced, x);
  }
  for (const Tensor& y : results) {
    op.results.push_back(y.view());
    op.results.back().data = nullptr;
  }
  ops_.push_back(std::move(op));
  note_results(inputs, results);
  note_draws();
}

void OpLog::ran_inside(const TensorList& inputs) {
  if (!usable_) return;
  for (const Tensor& x : inputs)
    if (const Produced* produced = x ? producer(x) : nullptr) {
      (asked_ ? reads_inside_ : always_read_).push_back(produced->id);
      hold(*produced, x);
    }
}

void OpLog::saved(const Tensor& x, size_t slot) {
  if (!usable_) return;
  OpRecord& op = ops_.back();
  op.end_slot = slot + 1;
  SlotSource source{.op = ops_.size() - 1};
  if (const Produced* produced = producer(x)) {
    source.result = produced->id;
    const char* first = static_cast<const char*>(x.storage()->data()) + produced->view.offset;
    source.of_result = RelativeView(x.view(), first);
    hold(*produced, x);
  }
  auto place = std::find_if(inputs_.begin(), inputs_.end(),
                            [&](const Place& p) { return p.storage == x.storage().get(); });
  if (place != inputs_.end()) {
    source.input = size_t(place - inputs_.begin());
    source.of_input = RelativeView(x.view(), place->data);
  }
  if (!source.result && !source.input && op.decision != Decision::recompute) inner_.emplace(slot, x);
  slots_.push_back(std::move(source));
}

void OpLog::give_up() {
  usable_ = false;
  held_.clear();
  inner_.clear();
}

std::map<ResultId, Tensor> OpLog::take_results() {
  for (const auto& [address, produced] : produced_) {
    auto held = held_.find(produced.id);  // changed in place since: the replay does it again
    if (held != held_.end() && held->second.version() != produced.version) held_.erase(held);
  }
  produced_.clear();
  inputs_.clear();
  return std::exchange(held_, {});
}

const OpLog::Produced* OpLog::producer(const Tensor& x) const {
  auto found = produced_.find(x.storage().get());
  bool is_it = found != produced_.end() && found->second.storage.lock() == x.storage();
  return is_it ? &found->second : nullptr;
}

Decision OpLog::ask(const OpRecord& op, const TensorList& results) const {
  if (!policy_) return Decision::recompute;
  return policy_({op.name, op.inputs, shapes_of(results), is_replaying()});
}

void OpLog::note_results(const TensorList& inputs, const TensorList& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& y = results[i];
    if (shares_memory(y, inputs)) continue;
    const std::shared_ptr<Storage>& storage = y.storage();
    produced_[storage.get()] = {
        {ops_.size() - 1, i}, storage, y.version(), RelativeView(y.view(), storage->data())};
  }
}

void OpLog::note_draws() {
  for (size_t i = 0; i < drawn_.size(); ++i) {
    Generator::State now = drawn_[i].resolve().state();
    if (i < drawn_states_.size() && drawn_states_[i] == now) continue;
    drawn_states_.resize(drawn_.size());
    drawn_states_[i] = now;
    ops_.back().drawn.push_back({drawn_[i].generator, now});
  }
}

void OpLog::hold(const Produced& produced, const Tensor& x) {
  if (ops_[produced.id.op].decision == Decision::recompute || held_.contains(produced.id)) return;
  TensorView view = produced.view.layout;
  view.data = static_cast<char*>(x.storage()->data()) + produced.view.offset;
  held_.emplace(produced.id, x.alias(view));
}

}  // namespace reprise::recompute
