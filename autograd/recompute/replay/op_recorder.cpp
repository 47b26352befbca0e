// Following results from operation to operation by the storage they lie in.
#include "reprise/autograd/recompute/replay/op_recorder.h"

#include <algorithm>

#include "reprise/autograd/recompute/replay/replay_scope.h"

namespace reprise::recompute {
namespace {

bool shares_memory(const Tensor& y, const TensorList& others) {
  return std::any_of(others.begin(), others.end(), [&](const Tensor& x) {
    return x.defined() && y.defined() && x.storage() == y.storage();
  });
}

bool same_form(const TensorView& a, const TensorView& b) {
  return a.shape == b.shape && a.strides == b.strides && a.dtype == b.dtype;
}

size_t bytes_spanned(const TensorView& x) {
  int64_t last = 0;
  for (int d = 0; d < x.rank(); ++d) last += (x.shape[d] - 1) * x.strides[d];
  return x.numel() == 0 ? 0 : size_t(last + 1) * size_of(x.dtype);
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

RelativeView::RelativeView(const TensorView& view, const TensorView& of_base)
    : layout(view),
      base(of_base),
      offset(static_cast<const char*>(view.data) - static_cast<const char*>(of_base.data)) {
  layout.data = base.data = nullptr;
}

bool RelativeView::is_whole() const { return offset == 0 && same_form(layout, base); }

bool RelativeView::is_inside() const {
  return offset >= 0 && size_t(offset) + bytes_spanned(layout) <= bytes_spanned(base);
}

bool RelativeView::fits(const Tensor& other) const {
  return is_whole() || (is_inside() && !other.is_hollow() && same_form(other.view(), base));
}

Tensor RelativeView::of(const Tensor& other) const {
  TensorView view = is_whole() ? other.view() : layout;
  view.data = static_cast<char*>(other.view().data) + offset;
  return other.alias(view);
}

void OpLog::begins(const TensorList& inputs) {
  asked_ = true;
  versions_.clear();
  for (const Tensor& x : inputs) versions_.push_back(x.defined() ? x.version() : 0);
}

bool OpLog::changed_an_argument(const TensorList& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && inputs[i].version() != versions_[i]) return true;
  return false;
}

void OpLog::ran(const char* name, const TensorList& inputs, const TensorList& results, const OpPlace& place) {
  if (!usable_) return;
  OpRecord op{.name = name, .inputs = shapes_of(inputs), .reads = std::exchange(reads_inside_, {})};
  op.place = place;
  op.first_slot = op.end_slot = slots_.size();
  op.replaceable = std::exchange(asked_, false) && !changed_an_argument(inputs) &&
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
  ops_.push_back(std::move(op));
  note_results(inputs, results);
  note_draws();
}

void OpLog::ran_inside(const TensorList& inputs) {
  if (!usable_) return;
  for (const Tensor& x : inputs)
    if (const Produced* produced = x.defined() ? producer(x) : nullptr) {
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
    TensorView result = produced->view.layout;
    result.data = static_cast<char*>(x.storage()->data()) + produced->view.offset;
    source.of_result = RelativeView(x.view(), result);
    hold(*produced, x);
  }
  find_input(x, source);
  bool is_inner = !source.result || !source.of_result.is_inside();
  if (is_inner && !source.input && op.decision != Decision::recompute) inner_.emplace(slot, x);
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

// An argument that shares the memory may lie elsewhere in a replay, or have other strides.
void OpLog::find_input(const Tensor& x, SlotSource& source) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].storage != x.storage().get()) continue;
    RelativeView view(x.view(), inputs_[i].view);
    if (!view.is_whole() && (source.input || !view.is_inside())) continue;
    source.input = i;
    source.of_input = view;
    if (view.is_whole()) return;
  }
}

Decision OpLog::ask(const OpRecord& op, const TensorList& results) const {
  if (!policy_) return Decision::recompute;
  return policy_({op.name, op.inputs, shapes_of(results), is_replaying()});
}

void OpLog::note_results(const TensorList& inputs, const TensorList& results) {
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& y = results[i];
    if (!y.defined() || shares_memory(y, inputs)) continue;
    const std::shared_ptr<Storage>& storage = y.storage();
    TensorView start = y.view();
    start.data = storage->data();
    produced_[storage.get()] = {{ops_.size() - 1, i}, storage, y.version(), RelativeView(y.view(), start)};
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
