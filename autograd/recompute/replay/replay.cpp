// Running a region's body again, or what is needed of it.
#include "reprise/autograd/recompute/replay/replay.h"

#include <algorithm>
#include <string_view>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/recompute/replay/kept.h"
#include "reprise/autograd/recompute/replay/replay_scope.h"

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

std::shared_ptr<Rebuilt> play_again(const Recording& first, const TensorList& inputs, Effort effort) {
  auto rebuilt = std::make_shared<Rebuilt>(first.slots.size());
  ReplayScope scope(first);
  Replay run(first, *rebuilt, inputs, effort);
  autograd::SavedTensorHooks hooks([&run](const Tensor& x) { return run.save(x); },
                                   [](const std::any& x) { return std::any_cast<Tensor>(x); });
  run.play(inputs);
  if (!first.complete) rebuilt->provenance = run.take_provenance();
  return rebuilt;
}

Tensor Rebuilt::take(size_t index, const SavedSlot& saved) {
  Value& value = values_[index];
  check(value.state != State::taken, "checkpoint: saved tensor ", index, ", of ", saved.op_name,
        ", is unpacked twice in one backward pass, and was let go after the first time; call saved(i) once");
  invariant(value.state == State::rebuilt, "checkpoint: saved tensor ", index, " was not rebuilt");
  check(value.tensor.version() == value.version, saved.op_name, ": a tensor of shape ", saved.shape,
        " that backward needs was changed in place inside the checkpoint: it is at version ",
        value.tensor.version(), ", saved at ", value.version);
  value.state = State::taken;
  return std::exchange(value.tensor, Tensor());
}

Replay::Replay(const Recording& first, Rebuilt& rebuilt, const TensorList& inputs, Effort effort)
    : RunObserver(own_provenance_, first),
      first_(first),
      rebuilt_(rebuilt),
      counted_(first.count(CallStats::Run::replay, inputs)),
      wanted_(first.slots.size()) {
  for (size_t i = 0; i < wanted_.size(); ++i) {
    std::shared_ptr<Slot> slot = first.slots[i].in_graph.lock();
    wanted_[i] = slot && !slot->kept;
    if (wanted_[i]) last_wanted_ = i;
  }
  if (first.provenance) provenance_ = first.new_provenance(inputs);
  find_needs(effort);
}

// Values are compared operation by operation: then all of them run.
void Replay::find_needs(Effort effort) {
  knows_needs_ = first_.complete && first_.knows_ops && effort == Effort::needed && !first_.compares_values();
  if (!knows_needs_) return;
  std::set<ResultId> at_hand;
  for (const auto& [id, kept] : first_.kept)
    if (!kept.expired()) at_hand.insert(id);
  needs_ = needs_of(first_, wanted_, at_hand);
  bool dead_slots = std::find(wanted_.begin(), wanted_.end(), false) != wanted_.end();
  leaves_out_ = first_.options.policy || (stops_early() && dead_slots);
}

void Replay::play(const TensorList& inputs) {
  try {
    first_.body->play(inputs);
  } catch (const Stop&) {}
  if (knows_needs_ && HollowRead::count() != hollow_reads_)  // fn may go another way after catching one
    HollowRead::raise("checkpoint: fn caught what reading a hollow tensor throws");
  if (failure_) std::rethrow_exception(failure_);
  if (!done_ || !stops_early()) check_complete();
  if (failure_) std::rethrow_exception(failure_);
  counted_.finish();
}

std::optional<TensorList> Replay::replacement(const char* op_name, const TensorList& inputs) {
  size_t k = next_op_;
  if (!(leaves_out_ || is_last(k)) || is_inside_op() || k >= first_.ops.size()) return {};
  const OpRecord& op = first_.ops[k];
  // Only the operation of the first run may be left out.
  bool same =
      is_same(op, op_name, inputs, next_) && (!provenance_ || provenance_->of_call() == op.place.call);
  if (!same) {
    if (!leaves_out_) return {};
    start_over();
  }
  // It runs where something needs it. A view costs nothing: it runs unless what it views is hollow.
  auto is_hollow = [](const Tensor& x) { return x.defined() && x.is_hollow(); };
  bool runs = op.is_view ? std::none_of(inputs.begin(), inputs.end(), is_hollow) : needs_.runs[k];
  if (runs || !fits(op, inputs)) return {};
  // It does not run: the record of this replay, the generators and the slots move on as if it had.
  op_name_ = op_name;
  ++next_op_;
  if (first_.has_trace()) {
    size_t begin = k ? first_.ops[k - 1].place.trace_end : 0;
    trace_.insert(trace_.end(), first_.trace.begin() + int64_t(begin),
                  first_.trace.begin() + int64_t(op.place.trace_end));
  }
  for (const autograd::DrawnGenerator& drawn : op.drawn) drawn.resolve().set_state(drawn.state);
  for (; next_ < op.end_slot; ++next_) {
    const SlotSource& source = first_.slots[next_].source;
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
    const SlotSource& source = first_.slots[slot].source;
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
  return knows_needs_ && stops_early() && first_.slots[last_wanted_].source.op == op;
}

void Replay::op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) {
  RunObserver::op_ran(op_name, inputs, outputs);
  op_name_ = op_name;
  if (!is_inside_op()) ++next_op_;
  if (!first_.has_trace()) return;
  trace_.push_back(traced(op_name, outputs, first_.compares_values()));
  if (first_.compares_values()) compare_values();
}

std::any Replay::save(const Tensor& x) {
  size_t index = next_++;
  if (index < wanted_.size() && !done_) {
    if (compares()) {
      std::string differs = difference(first_.slots[index], SavedSlot(x, op_name_));
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
  const SavedSlot& saved = first_.slots[slot];
  if (!wanted_[slot] || origin == saved.origin) return;
  if (knows_needs_ && HollowRead::count() != hollow_reads_) start_over();
  reject(
      first_.provenance->difference(join("saved tensor ", slot, ", of ", provenance_->place_of_last(), ","),
                                    saved.origin, *provenance_, origin));
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
  const std::vector<TensorView>& layouts = first_.ops[op].results;
  for (size_t i = 0; i < layouts.size(); ++i) {
    auto found = first_.kept.find({op, i});
    std::shared_ptr<KeptValue> kept = found == first_.kept.end() ? nullptr : found->second.lock();
    results.push_back(kept ? kept->read().alias() : Tensor::hollow(layouts[i]));
    if (!requires_grad || !is_floating(layouts[i].dtype)) continue;
    results.back().set_requires_grad();
    autograd::mark_stand_in(results.back());
  }
  return results;
}

void Replay::compare_values() {
  size_t index = trace_.size() - 1;
  if (index >= first_.trace.size()) return;
  const TracedOp &first = first_.trace[index], &replay = trace_[index];
  if (std::string_view(first.name) != replay.name)
    reject(join("operation ", index, " was ", first.name, ", in the replay it is ", replay.name));
  if (first.hash != replay.hash)
    reject(join("operation ", index, ", ", replay.name, " -> ", replay.results,
                ", gives other values in the replay: it is not deterministic, or something that fn "
                "reads was changed after the first run"));
}

// Other operations than in the first run may still save the same: when everything runs it will show.
void Replay::start_over() {
  HollowRead::raise("checkpoint: the replay's operations are not the first run's");
}

void Replay::check_complete() {
  if (leaves_out_ && !done_) start_over();
  size_t saved = first_.slots.size();
  bool must_match = first_.complete && compares();
  if (must_match ? next_ != saved : !done_)
    reject(join("the first run saved ", saved, " tensors for backward, the replay ", next_));
}

void Replay::reject(const std::string& message) {
  if (!failure_)
    failure_ = std::make_exception_ptr(
        Error("checkpoint: fn did something else when it was played again: " + message +
              (first_.options.debug ? side_by_side(first_.trace, trace_) : std::string())));
  if (!first_.body->is_noexcept()) std::rethrow_exception(failure_);
}

}  // namespace reprise::recompute
