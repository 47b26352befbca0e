// Noting the operations of a first run.
#include "reprise/autograd/recompute/first_run.h"

namespace reprise::recompute {

FirstRun::FirstRun(Region& region, const TensorList& inputs)
    : region_(region), counted_(region.log_, RegionLog::Run::first, inputs, region.captures_) {}

std::optional<TensorList> FirstRun::replacement(const char*, const TensorList& inputs) {
  if (!is_inside_op()) region_.ops_.begins(inputs);
  return {};
}

void FirstRun::op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) {
  op_name_ = op_name;
  region_.captures_.note(inputs, outputs);
  counted_.saw_operation();
  if (region_.keeps_trace())
    region_.trace_.push_back(traced(op_name, outputs, region_.options_.determinism == Determinism::values));
  if (is_inside_op())
    region_.ops_.ran_inside(inputs);
  else
    region_.ops_.ran(op_name, inputs, outputs, region_.trace_.size());
}

std::shared_ptr<Slot> FirstRun::keep(const Tensor& x) {
  counted_.saved(x);
  size_t index = region_.records_.size();
  auto slot = std::make_shared<Slot>(region_.shared_from_this(), index);
  region_.records_.push_back(record_of(x, op_name_));
  region_.slots_.push_back(slot);
  is_inside_op() ? region_.ops_.give_up() : region_.ops_.saved(x, index);
  return slot;
}

void FirstRun::finish() {
  counted_.finish();
  region_.captures_.finish();
  region_.complete_ = true;
}

}  // namespace reprise::recompute
