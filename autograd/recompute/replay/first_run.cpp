// Noting the operations of a first run.
#include "reprise/autograd/recompute/replay/first_run.h"

namespace reprise::recompute {

FirstRun::FirstRun(Region& region, const TensorList& inputs)
    : region_(region), counted_(region.log_, RegionLog::Run::first, inputs, region.captures_) {
  if (region.options_.determinism == Determinism::none) return;
  region.provenance_.emplace(inputs, region.compared_draws());
}

void FirstRun::op_begins(const autograd::OpCall& call) {
  if (region_.provenance_) region_.provenance_->op_begins(call);
}

void FirstRun::made(const autograd::OpCall& call, const Tensor& y) {
  if (region_.provenance_) region_.provenance_->made(call, y);
}

void FirstRun::will_write(const autograd::OpCall& call) {
  if (region_.provenance_) region_.provenance_->will_write(call);
  region_.captures_.note_write(call.inputs[0]);
  region_.captures_.note({call.inputs[1]}, call.name);
}

// A backward pass in between writes gradients, which is not what fn reads.
void FirstRun::data_asked(const Tensor& x) {
  if (region_.provenance_) region_.provenance_->data_asked(x);
  if (autograd::backward_depth() == passes_) region_.captures_.note_read(x);
}

std::optional<TensorList> FirstRun::replacement(const char*, const TensorList& inputs) {
  if (!is_inside_op()) region_.ops_.begins(inputs);
  return {};
}

void FirstRun::op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) {
  op_name_ = op_name;
  region_.captures_.note(inputs, op_name);
  if (region_.provenance_) region_.provenance_->op_ran(outputs);
  counted_.saw_operation();
  if (region_.keeps_trace())
    region_.trace_.push_back(traced(op_name, outputs, region_.options_.determinism == Determinism::values));
  if (is_inside_op())
    region_.ops_.ran_inside(inputs);
  else
    region_.ops_.ran(op_name, inputs, outputs, place_of_op());
}

OpPlace FirstRun::place_of_op() const {
  OpPlace place{.trace_end = region_.trace_.size()};
  if (!region_.provenance_) return place;
  place.call = region_.provenance_->of_call();
  place.origin = region_.provenance_->of_op();
  return place;
}

std::shared_ptr<Slot> FirstRun::keep(const Tensor& x) {
  counted_.saved(x);
  size_t index = region_.records_.size();
  auto slot = std::make_shared<Slot>(Slot{region_.shared_from_this(), index});
  region_.records_.push_back(record_of(x, op_name_));
  if (region_.provenance_) region_.records_.back().origin = region_.provenance_->of_saved(x);
  region_.slots_.push_back(slot);
  is_inside_op() ? region_.ops_.give_up() : region_.ops_.saved(x, index);
  return slot;
}

void FirstRun::finish() {
  counted_.finish();
  region_.complete_ = true;
}

}  // namespace reprise::recompute
