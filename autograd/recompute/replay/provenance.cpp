// Following tensors through the operations of a run.
#include "reprise/autograd/recompute/replay/provenance.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "reprise/autograd/leaf/lent_memory.h"
#include "reprise/autograd/random_draw.h"
#include "reprise/autograd/recompute/replay/trace.h"

namespace reprise::recompute {

using reprise::detail::join;

namespace {

using autograd::InsideOp;
using autograd::OpCall;

enum Kind : uint64_t { absent = 1, input, captured, fresh, inner };

// Tells the views of a run apart: nothing else has these bytes in this order.
uint64_t key_of(const Tensor& x) {
  SetDataObserver unseen(nullptr);
  uint64_t key = mix(mix(x.storage()->id()), uint64_t(x.dtype()));
  if (!x.is_hollow())  // lent memory may lie elsewhere in a replay
    key = mix(key, uint64_t(static_cast<const char*>(x.view().data) -
                            static_cast<const char*>(autograd::first_byte(*x.storage()))));
  for (int d = 0; d < x.rank(); ++d) {
    int64_t size = x.shape()[d];
    key = mix(mix(key, uint64_t(size)), size > 1 ? uint64_t(x.strides()[d]) : 0);
  }
  return key;
}

uint64_t hash_of_name(const char* name) {
  uint64_t hash = 0;
  for (; *name; ++name) hash = mix(hash, uint64_t(*name));
  return hash;
}

uint64_t content_of(const Tensor& x) {
  autograd::HideOpObservers unseen;
  return hash_of(x);
}

}  // namespace

Provenance::Provenance(const TensorList& inputs, Draws draws, const Provenance* first)
    : depth_(InsideOp::operation_depth()), draws_(draws), first_(first) {
  if (first) given_ = first->given_;  // fn may have captured an input as well, which lies elsewhere now
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& x = inputs[i];
    if (!x.defined()) continue;
    given_.insert(x.storage()->id());
    uint64_t origin = mix(mix(Kind::input), i);
    sources_.emplace(origin, Source{Source::Kind::input, i, form_of(x)});
    know(x, origin);
  }
}

bool Provenance::is_inside_operation() const { return InsideOp::operation_depth() != depth_; }

bool Provenance::is_captured(const Storage& storage) const {
  return is_older(storage) && !given_.contains(storage.id());
}

void Provenance::begin(const OpCall& call) {
  Step step{.name = call.name,
            .attributes = call.attributes,
            .last_storage = Storage::last_id(),
            .draws = autograd::sum_of_draws()};
  if (draws_ == Draws::ignored) step.attributes.draws = 0;
  step.call = mix(mix(hash_of_name(call.name), step.attributes.values), step.attributes.draws);
  step.arguments.reserve(call.inputs.size());
  for (const Tensor& x : call.inputs) {
    step.arguments.push_back({of(x), form_of(x)});
    step.call = mix(step.call, step.arguments.back().origin);
  }
  step.op = step.call;
  steps_.push_back(std::move(step));
}

void Provenance::op_begins(const OpCall& call) {
  if (!is_inside_operation()) begin(call);
}

void Provenance::op_ran(const TensorList& results) {
  if (is_inside_operation() || steps_.empty()) return;
  Step& step = steps_.back();
  step.draws = draws_ == Draws::compared ? autograd::sum_of_draws() - step.draws : 0;
  step.op = mix(step.call, step.draws);
  note_results(results);
}

void Provenance::op_was_left_out(uint64_t op, const TensorList& results) {
  steps_.back().op = op;
  for (const Tensor& y : results)  // a policy kept it since the first run
    if (y.defined()) given_.insert(y.storage()->id());
  note_results(results);
}

// A copy is what it is of: contiguous() makes one or not, as the strides are, which may be others in a
// replay.
void Provenance::note_results(const TensorList& results) {
  if (std::string_view(steps_.back().name) == "clone")
    return know(results[0], steps_.back().arguments[0].origin);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) continue;
    uint64_t origin = mix(steps_.back().op, i);
    makers_.emplace(origin, steps_.size() - 1);
    if (!is_captured(*results[i].storage())) know(results[i], origin);
  }
}

void Provenance::made(const OpCall& call, const Tensor& y) {
  if (is_inside_operation()) return;
  begin(call);
  steps_.back().draws = 0;
  note_results({y});
}

// A view that is known already stays what it was: x.T.T is x. Unless the operation wrote there. A replay may
// have one view of the first run twice: its inputs lie where they were saved, each by itself.
void Provenance::know(const Tensor& x, uint64_t origin) {
  if (first_)
    if (auto one = first_->same_as_.find(origin); one != first_->same_as_.end()) origin = one->second;
  Known& known = known_.try_emplace(key_of(x), Known{origin, x.version(), x.storage()->id()}).first->second;
  if (known.version != x.version()) known = {origin, x.version(), x.storage()->id()};
  if (known.origin != origin) same_as_.emplace(origin, known.origin);
}

void Provenance::stands_for(const Tensor& x, uint64_t origin, const Provenance* replay) {
  if (!x.defined() || is_captured(*x.storage())) return;
  know(x, origin);
  if (!replay) return;
  // x may be a transpose, of which backward takes the transpose.
  for (const auto& [key, known] : replay->known_)
    if (known.storage == x.storage()->id()) known_.try_emplace(key, known);
}

// What an operation makes for itself is not yet anything; what it was given is.
void Provenance::will_write(const OpCall& call) {
  const Tensor& x = call.inputs[0];
  const Storage& storage = *x.storage();
  if (!is_inside_operation()) written_.reset();
  if (is_captured(storage)) return;  // its version tells
  if (is_inside_operation()) {
    if (steps_.empty() || storage.id() > steps_.back().last_storage) return;
    uint64_t& writes = writes_[storage.id()];
    writes = mix(mix(writes, steps_.back().call), call.attributes.values);
    return;
  }
  begin(call);
  steps_.back().draws = 0;
  writes_[storage.id()] = steps_.back().op = mix(steps_.back().call, writes_[storage.id()]);
  makers_.emplace(steps_.back().op, steps_.size() - 1);
  if (auto known = known_.find(key_of(x)); known != known_.end())
    written_ = {known->second.origin, x.version() - known->second.version};
}

// In reentrant mode the first run writes where a replay records: the tensor has the provenance of memory that was written once more,
// in memory of its own or in that which it had.
void Provenance::took_place(const Tensor& before, const Tensor& now) {
  if (is_inside_operation() || !written_) return;
  const auto [origin, writes] = *std::exchange(written_, {});
  const uint64_t all = writes_[before.storage()->id()];
  writes_[now.storage()->id()] = all;
  known_[key_of(now)] = {origin, now.version() - writes - 1, now.storage()->id()};
}

// The code that asks may write. What is not an operation's result is known by its values from then on.
void Provenance::data_asked(const Tensor& x, bool in_backward) {
  if (is_older(*x.storage())) return;
  auto found = known_.find(key_of(x));
  if (found != known_.end()) {
    if (in_backward) return;
    const Step* step = maker(found->second.origin);
    auto source = sources_.find(found->second.origin);
    bool is_fresh = source != sources_.end() && source->second.kind == Source::Kind::fresh;
    if (step ? !step->arguments.empty() : !is_fresh) return;
    known_.erase(found);
  }
  touched_.insert(x.storage()->id());
}

const uint64_t* Provenance::known(const Tensor& x, uint64_t key) const {
  auto found = known_.find(key);
  return found != known_.end() && found->second.version == x.version() ? &found->second.origin : nullptr;
}

uint64_t Provenance::of(const Tensor& x) {
  if (!x.defined()) return mix(Kind::absent);
  uint64_t key = key_of(x);
  auto found = known_.find(key);
  if (found == known_.end()) return source_of(x, key);
  const auto [origin, version, storage] = found->second;
  if (version == x.version()) return origin;
  auto written = writes_.find(x.storage()->id());
  uint64_t write = written == writes_.end() ? 0 : written->second;
  uint64_t now = mix(mix(origin, write), x.version() - version);
  auto writer = makers_.find(makers_.contains(write) ? write : origin);
  if (writer != makers_.end()) makers_.emplace(now, writer->second);
  return now;
}

// What no operation of this run made. What the first run made and something holds, a mask for all layers say,
// a replay may read; and where the first run found captured memory under another name, an input's say, it has
// that here.
uint64_t Provenance::source_of(const Tensor& x, uint64_t key) {
  if (const uint64_t* earlier = first_ ? first_->known(x, key) : nullptr) {
    know(x, *earlier);
    return *earlier;
  }
  const Storage& storage = *x.storage();
  if (is_older(storage)) {
    uint64_t origin = mix(mix(mix(Kind::captured), key), x.version());
    sources_.try_emplace(origin, Source{Source::Kind::captured, storage.id(), form_of(x)});
    if (!is_captured(storage)) know(x, origin);
    return origin;
  }
  uint64_t origin = mix(mix(Kind::fresh), uint64_t(x.dtype()));
  for (int64_t size : x.shape()) origin = mix(origin, uint64_t(size));
  if (touched_.contains(storage.id()) && !x.is_hollow()) origin = mix(origin, content_of(x));
  sources_.try_emplace(origin, Source{Source::Kind::fresh, storage.id(), form_of(x)});
  know(x, origin);
  return origin;
}

uint64_t Provenance::of_saved(const Tensor& x) {
  if (!x.defined()) return mix(Kind::absent);
  if (is_older(*x.storage()) || known_.contains(key_of(x)) || steps_.empty()) return of(x);
  uint64_t origin = mix(mix(mix(Kind::inner), steps_.back().op), steps_.back().saved++);
  makers_.emplace(origin, steps_.size() - 1);
  return origin;
}

Provenance::Form Provenance::form_of(const Tensor& x) {
  return x.defined() ? Form{x.dtype(), x.shape()} : Form{};
}

// Saying where two runs parted.

std::string Provenance::difference(const std::string& what, uint64_t first, const Provenance& replay,
                                   uint64_t now) const {
  std::string where = what;
  for (;;) {
    const Step *was = maker(first), *is = replay.maker(now);
    if (!was || !is || std::string_view(was->name) != is->name ||
        was->arguments.size() != is->arguments.size())
      break;
    std::string both = join(place_of(*was), ", which is ", replay.place_of(*is), " of the replay,");
    if (was->attributes.values != is->attributes.values)
      return join(both, " was given other numbers, sizes or flags then");
    auto same = [](const Argument& x, const Argument& y) { return x.origin == y.origin; };
    auto [a, b] = std::mismatch(was->arguments.begin(), was->arguments.end(), is->arguments.begin(), same);
    if (a == was->arguments.end()) {
      bool drew = was->attributes.draws != is->attributes.draws || was->draws != is->draws;
      return join(both, drew ? " drew other random numbers" : " did something else inside");
    }
    where = join("argument ", a - was->arguments.begin(), " of ", place_of(*was));
    first = a->origin;
    now = b->origin;
  }
  auto source = sources_.find(first), other = replay.sources_.find(now);
  if (source != sources_.end() && other != replay.sources_.end())
    if (std::string text = source_difference(source->second, other->second); !text.empty())
      return where + text;
  return join(where, " was ", origin_text(first), ", in the replay it is ", replay.origin_text(now));
}

std::string Provenance::source_difference(const Source& first, const Source& now) const {
  using Kind = Source::Kind;
  if (first.kind == Kind::fresh && now.kind == Kind::fresh)
    return join(" was ", text_of(first.form), " made by hand, with other values in the replay");
  if (first.kind != Kind::captured || now.kind != Kind::captured) return {};
  if (first.id == now.id && first.form.shape == now.form.shape)
    return join(" was ", text_of(first.form),
                " that fn captured, which was changed in place before the replay");
  return join(" was ", text_of(first.form), " that fn captured, in the replay it is another tensor, ",
              text_of(now.form), ": set_data, or one assigned in its place");
}

const Provenance::Step* Provenance::maker(uint64_t origin) const {
  auto found = makers_.find(origin);
  return found == makers_.end() ? nullptr : &steps_[found->second];
}

std::string Provenance::place_of(const Step& step) const {
  std::string text = join("operation ", &step - steps_.data(), ", ", step.name, '(');
  for (const Argument& x : step.arguments)
    text += (&x == step.arguments.data() ? "" : ", ") + text_of(x.form);
  return text + ')';
}

std::string Provenance::origin_text(uint64_t origin) const {
  if (const Step* step = maker(origin)) return "the result of " + place_of(*step);
  auto source = sources_.find(origin);
  if (source == sources_.end()) return "nothing that is known";
  const auto& [kind, id, form] = source->second;
  if (kind == Source::Kind::input) return join("input ", id, ", ", text_of(form));
  return text_of(form) + (kind == Source::Kind::captured ? " that fn captured" : " made by hand");
}

std::string Provenance::text_of(const Form& form) { return join(form.dtype, form.shape); }

}  // namespace reprise::recompute
