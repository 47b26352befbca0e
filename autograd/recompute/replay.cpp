// Running a region's body again.
#include "reprise/autograd/recompute/replay.h"

#include <string_view>

namespace reprise::recompute {

Replay::Replay(Region& region, Rebuilt& rebuilt, const TensorList& inputs)
    : region_(region),
      rebuilt_(rebuilt),
      counted_(region.log_, RegionLog::Run::replay, inputs, region.captures_) {
  for (size_t i = 0; i < region.slots_.size(); ++i)
    if (!region.slots_[i].expired()) last_live_ = i;
}

void Replay::play(const TensorList& inputs) {
  try {
    region_.body_->play(inputs);
  } catch (const Stop&) {}
  if (failure_) std::rethrow_exception(failure_);
  if (!done_ || !region_.options_.early_stop) check_complete();
  counted_.finish();
}

std::any Replay::keep(const Tensor& x) {
  size_t index = next_++;
  if (index < region_.records_.size() && !done_) {
    if (region_.options_.determinism != Determinism::none) {
      std::string differs = difference(region_.records_[index], record_of(x, op_name_));
      if (!differs.empty())
        reject(reprise::detail::join("saved tensor ", index, " of ", op_name_, ": ", differs));
    }
    if (!region_.slots_[index].expired()) {
      rebuilt_.put(index, x);
      counted_.saved(x);
    }
    done_ = index == last_live_;
  }
  if (done_ && region_.options_.early_stop) throw Stop();
  return x;
}

void Replay::op_ran(const char* op_name, const TensorList&, const TensorList& outputs) {
  op_name_ = op_name;
  if (!region_.keeps_trace()) return;
  bool with_values = region_.options_.determinism == Determinism::values;
  trace_.push_back(traced(op_name, outputs, with_values));
  size_t index = trace_.size() - 1;
  if (!with_values || index >= region_.trace_.size()) return;
  const TracedOp &first = region_.trace_[index], &replay = trace_[index];
  if (std::string_view(first.name) != replay.name)
    reject(reprise::detail::join("operation ", index, " was ", first.name, ", in the replay it is ",
                                 replay.name));
  if (first.hash != replay.hash)
    reject(reprise::detail::join(
        "operation ", index, ", ", op_name, " -> ", replay.results,
        ", gives other values in the replay: it is not deterministic, or something that fn "
        "reads was changed after the first run"));
}

void Replay::check_complete() {
  size_t saved = region_.records_.size();
  bool must_match = region_.complete_ && region_.options_.determinism != Determinism::none;
  if (must_match ? next_ != saved : !done_)
    reject(reprise::detail::join("the first run saved ", saved, " tensors for backward, the replay ", next_));
}

void Replay::reject(const std::string& message) {
  if (!failure_)
    failure_ = std::make_exception_ptr(
        Error("checkpoint: fn did something else when it was played again: " + message +
              (region_.options_.debug ? side_by_side(region_.trace_, trace_) : std::string())));
  std::rethrow_exception(failure_);
}

}  // namespace reprise::recompute
