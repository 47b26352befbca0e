// Noting the operations of a first run.
#include "reprise/autograd/recompute/replay/first_run.h"

namespace reprise::recompute {

void FirstRun::op_begins(const autograd::OpCall& call) {
  FirstRunObserver::op_begins(call);
  if (!is_inside_op()) ops_.begins(call);
}

void FirstRun::op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) {
  FirstRunObserver::op_ran(op_name, inputs, outputs);
  op_name_ = op_name;
  if (recording_.has_trace())
    recording_.trace.push_back(traced(op_name, outputs, recording_.compares_values()));
  if (is_inside_op())
    ops_.ran_inside(inputs);
  else
    ops_.ran(op_name, inputs, outputs, place_of_op());
}

void FirstRun::took_place(const Tensor& before, const Tensor& now) {
  FirstRunObserver::took_place(before, now);
  if (!is_inside_op() && before.storage() == now.storage()) ops_.overwrote(now);
}

OpPlace FirstRun::place_of_op() const {
  OpPlace place{.trace_end = recording_.trace.size()};
  if (!provenance_) return place;
  place.call = provenance_->of_call();
  place.origin = provenance_->of_op();
  return place;
}

std::shared_ptr<Slot> FirstRun::save(const Tensor& x, std::shared_ptr<Region> region) {
  counted_.saved(x);
  saved_.insert(x.storage()->id());
  auto slot = std::make_shared<Slot>(Slot{std::move(region), recording_.slots.size()});
  SavedSlot& saved = recording_.slots.emplace_back(x, op_name_);
  saved.in_graph = slot;
  if (provenance_) saved.origin = provenance_->of_saved(x);
  is_inside_op() ? ops_.give_up() : ops_.saved(x);
  return slot;
}

}  // namespace reprise::recompute
