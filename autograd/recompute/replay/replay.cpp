// Running a region's body again, or what is needed of it.
#include "reprise/autograd/recompute/replay/replay.h"

#include <algorithm>
#include <string_view>

#include "reprise/autograd/grad_mode.h"

namespace reprise::recompute {

using reprise::detail::join;

namespace {

// What was kept, and what is not needed, fits only if the operation is the one of the first run.
bool is_same(const OpRecord& first, const char* name, const TensorList& inputs, size_t next_slot) {
  bool same = std::string_view(first.name) == name && first.first_slot == next_slot &&
              first.inputs.size() == inputs.size();
  for (size_t i = 0; same && i < inputs.size(); ++i)
    same = first.inputs[i] == (inputs[i].defined() ? inputs[i].shape() : Shape());
  return same;
}

}  // namespace

Replay::Replay(Region& region, Rebuilt& rebuilt, const TensorList& inputs, Effort effort)
    : region_(region),
      rebuilt_(rebuilt),
      counted_(region.log_, RegionLog::Run::replay, inputs, region.captures_),
      wanted_(region.slots_.size()) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    std::shared_ptr<Slot> slot = region.slots_[i].lock();
    wanted_[i] = slot && !slot->kept;
    if (wanted_[i]) last_wanted_ = i;
  }
  if (region.provenance_) provenance_.emplace(inputs, region.compared_draws(), &*region.provenance_);
  find_needs(effort);
}

void Replay::op_begins(const autograd::OpCall& call) {
  if (provenance_) provenance_->op_begins(call);
}

void Replay::made(const autograd::OpCall& call, const Tensor& y) {
  if (provenance_) provenance_->made(call, y);
}

void Replay::will_write(const autograd::OpCall& call) {
  if (provenance_) provenance_->will_write(call);
}

void Replay::data_asked(const Tensor& x) {
  if (provenance_) provenance_->data_asked(x);
}

// Values are compared operation by operation: then all of them run.
void Replay::find_needs(Effort effort) {
  knows_needs_ = region_.complete_ && region_.ops_.is_usable() && effort == Effort::needed &&
                 region_.options_.determinism != Determinism::values;
  if (!knows_needs_) return;
  std::set<ResultId> at_hand;
  for (const auto& [id, kept] : region_.kept_)
    if (!kept.expired()) at_hand.insert(id);
  needs_ = needs_of(region_.ops_, wanted_, at_hand);
  bool dead_slots = std::find(wanted_.begin(), wanted_.end(), false) != wanted_.end();
  leaves_out_ = region_.options_.policy || (stops_early() && dead_slots);
}

void Replay::play(const TensorList& inputs) {
  try {
    region_.body_->play(inputs);
  } catch (const Stop&) {}
  if (knows_needs_ && HollowRead::count() != hollow_reads_)  // fn may go another way after catching one
    throw HollowRead("checkpoint: fn caught a HollowRead");
  if (failure_) std::rethrow_exception(failure_);
  if (!done_ || !stops_early()) check_complete();
  if (failure_) std::rethrow_exception(failure_);
  counted_.finish();
}

std::optional<TensorList> Replay::replacement(const char* op_name, const TensorList& inputs) {
  size_t k = next_op_;
  if (!(leaves_out_ || is_last(k)) || is_inside_op() || k >= region_.ops_.ops().size()) return {};
  const OpRecord& op = region_.ops_.ops()[k];
  bool same =
      is_same(op, op_name, inputs, next_) && (!provenance_ || provenance_->of_call() == op.place.call);
  if (!same) {
    if (!leaves_out_) return {};
    start_over();
  }
  auto is_hollow = [](const Tensor& x) { return x.defined() && x.is_hollow(); };
  bool runs = op.is_view ? std::none_of(inputs.begin(), inputs.end(), is_hollow) : needs_.runs[k];
  if (runs || !fits(op, inputs)) return {};
  op_name_ = op_name;
  ++next_op_;
  if (region_.keeps_trace()) {
    size_t begin = k ? region_.ops_.ops()[k - 1].place.trace_end : 0;
    trace_.insert(trace_.end(), region_.trace_.begin() + int64_t(begin),
                  region_.trace_.begin() + int64_t(op.place.trace_end));
  }
  for (const autograd::DrawnGenerator& drawn : op.drawn) drawn.resolve().set_state(drawn.state);
  for (; next_ < op.end_slot; ++next_) {
    const SlotSource& source = region_.ops_.slots()[next_];
    if (wanted_[next_]) fill(next_, source.of_input.of(inputs[*source.input]));
  }
  if (done_ && stops_early()) throw Stop();
  TensorList results = results_of(k, inputs);
  if (provenance_) provenance_->op_was_left_out(op.place.origin, results);
  return results;
}

// Whether the arguments have what the operation saved, where the first run's had it.
bool Replay::fits(const OpRecord& op, const TensorList& inputs) const {
  for (size_t slot = op.first_slot; slot < op.end_slot; ++slot) {
    const SlotSource& source = region_.ops_.slots()[slot];
    if (wanted_[slot] && !(source.input && source.of_input.fits(inputs[*source.input]))) return false;
  }
  return true;
}

bool Replay::wants_results() {
  if (!knows_needs_ || is_inside_op() || needs_.reads_results_of(next_op_)) return true;
  return !leaves_out_ && !is_last(next_op_);
}

// Whether the replay ends with what this operation saves.
bool Replay::is_last(size_t op) const {
  return knows_needs_ && stops_early() && region_.ops_.slots()[last_wanted_].op == op;
}

void Replay::op_ran(const char* op_name, const TensorList&, const TensorList& outputs) {
  op_name_ = op_name;
  if (provenance_) provenance_->op_ran(outputs);
  if (!is_inside_op()) ++next_op_;
  if (!region_.keeps_trace()) return;
  bool with_values = region_.options_.determinism == Determinism::values;
  trace_.push_back(traced(op_name, outputs, with_values));
  if (with_values) compare_values();
}

std::any Replay::keep(const Tensor& x) {
  size_t index = next_++;
  if (index < wanted_.size() && !done_) {
    if (compares()) {
      std::string differs = recompute::difference(region_.records_[index], record_of(x, op_name_));
      if (!differs.empty()) reject(join("saved tensor ", index, " of ", op_name_, ": ", differs));
    }
    if (wanted_[index] && x.is_hollow()) start_over();
    if (provenance_) compare_origin(index, provenance_->of_saved(x));
    if (wanted_[index]) fill(index, x);
  }
  if (done_ && stops_early()) throw Stop();
  return x;
}

// A body that catches what reading a hollow tensor throws goes another way, and plays again.
void Replay::compare_origin(size_t slot, uint64_t origin) {
  const SlotRecord& record = region_.records_[slot];
  if (!wanted_[slot] || origin == record.origin) return;
  if (knows_needs_ && HollowRead::count() != hollow_reads_) start_over();
  reject(
      region_.provenance_->difference(join("saved tensor ", slot, ", of ", provenance_->place_of_last(), ","),
                                      record.origin, *provenance_, origin));
}

void Replay::fill(size_t slot, const Tensor& x) {
  rebuilt_.put(slot, x);
  counted_.saved(x);
  done_ = slot == last_wanted_;
}

TensorList Replay::results_of(size_t op, const TensorList& inputs) const {
  bool requires_grad = autograd::grad_mode_enabled() &&
                       std::any_of(inputs.begin(), inputs.end(),
                                   [](const Tensor& x) { return x.defined() && x.requires_grad(); });
  TensorList results;
  const std::vector<TensorView>& layouts = region_.ops_.ops()[op].results;
  for (size_t i = 0; i < layouts.size(); ++i) {
    auto found = region_.kept_.find({op, i});
    std::shared_ptr<KeptValue> kept = found == region_.kept_.end() ? nullptr : found->second.lock();
    results.push_back(kept ? kept->read().detach() : Tensor::hollow(layouts[i]));
    if (requires_grad && is_floating(layouts[i].dtype)) results.back().set_requires_grad();
  }
  return results;
}

void Replay::compare_values() {
  size_t index = trace_.size() - 1;
  if (index >= region_.trace_.size()) return;
  const TracedOp &first = region_.trace_[index], &replay = trace_[index];
  if (std::string_view(first.name) != replay.name)
    reject(join("operation ", index, " was ", first.name, ", in the replay it is ", replay.name));
  if (first.hash != replay.hash)
    reject(join("operation ", index, ", ", replay.name, " -> ", replay.results,
                ", gives other values in the replay: it is not deterministic, or something that fn "
                "reads was changed after the first run"));
}

// Other operations than in the first run may still save the same: when everything runs it will show.
void Replay::start_over() { throw HollowRead("checkpoint: the replay's operations are not the first run's"); }

void Replay::check_complete() {
  if (leaves_out_ && !done_) start_over();
  size_t saved = region_.records_.size();
  bool must_match = region_.complete_ && region_.options_.determinism != Determinism::none;
  if (must_match ? next_ != saved : !done_)
    reject(join("the first run saved ", saved, " tensors for backward, the replay ", next_));
}

void Replay::reject(const std::string& message) {
  if (!failure_)
    failure_ = std::make_exception_ptr(
        Error("checkpoint: fn did something else when it was played again: " + message +
              (region_.options_.debug ? side_by_side(region_.trace_, trace_) : std::string())));
  if (!region_.body_->is_noexcept()) std::rethrow_exception(failure_);
}

}  // namespace reprise::recompute
