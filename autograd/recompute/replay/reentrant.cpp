// The node of a reentrant checkpoint.
#include "reprise/autograd/recompute/replay/reentrant.h"

#include <algorithm>
#include <atomic>
#include <iostream>
#include <unordered_map>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/nested_pass.h"
#include "reprise/autograd/recompute/replay/replay_scope.h"
#include "reprise/autograd/recompute/replay/run_observer.h"

namespace reprise::recompute {
namespace {

using autograd::Edge;
using autograd::gradient_edge;

auto same_as(const Tensor& x) {
  return [&x](const Tensor& other) { return x.defined() && other.is_same(x); };
}

auto shares_memory_with(const Tensor& x) {
  return [&x](const Tensor& other) { return other.defined() && other.storage() == x.storage(); };
}

bool contains(const TensorList& all, const Tensor& one) {
  return std::any_of(all.begin(), all.end(), same_as(one));
}

// Whether `edge` was there before the region: `fn` may turn recording on, and make a graph for itself.
bool is_from_outside(const Edge& edge, const autograd::Node& region) {
  return edge && (edge.node->sequence() < region.sequence() || edge.node->sequence() == UINT64_MAX);
}

// The memory of tensors that a gradient can reach: what came into the region and requires grad, what its operations made, and what
// was written with one of these.
class Reached {
 public:
  void note(const TensorList& inputs, const TensorList& results) {
    for (const Tensor& x : inputs)
      if (x.defined() && x.requires_grad()) add(x, false);
    for (const Tensor& y : results)
      if (y.defined() && std::none_of(inputs.begin(), inputs.end(), shares_memory_with(y))) add(y, false);
  }
  /// The first is about to be written, of the others.
  void note_write(const TensorList& inputs) {
    for (size_t i = 1; i < inputs.size(); ++i)
      if (inputs[i].defined() && (inputs[i].requires_grad() || has(inputs[i]))) add(inputs[0], true);
  }
  bool has(const Tensor& x) const { return find(x) != nullptr; }
  /// And that not by what was written there alone: state may be written twice.
  bool has_unwritten(const Tensor& x) const {
    const Memory* memory = find(x);
    return memory && !memory->only_written;
  }

 private:
  struct Memory {
    std::weak_ptr<Storage> storage;  // its address may be another one's by now
    bool only_written = false;
  };
  const Memory* find(const Tensor& x) const {
    auto found = storages_.find(x.storage().get());
    return found != storages_.end() && found->second.storage.lock() == x.storage() ? &found->second : nullptr;
  }
  void add(const Tensor& x, bool by_writing) {
    const Memory* known = find(x);
    storages_[x.storage().get()] = {x.storage(), by_writing && (!known || known->only_written)};
  }

  std::unordered_map<const Storage*, Memory> storages_;
};

// Sees what the region reads that has a place in the graph around it, and what it makes.
class CaptureObserver final : public FirstRunObserver {
 public:
  CaptureObserver(Recording& recording, const TensorList& inputs, const autograd::Node& node,
                  std::vector<Edge>& edges, Reached& reached)
      : FirstRunObserver(recording, inputs), node_(node), edges_(edges), reached_(reached) {}
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override {
    FirstRunObserver::op_ran(op_name, inputs, outputs);
    reached_.note(inputs, outputs);
    note_edges(inputs);
  }
  // Where the replay will record an operation, the first run writes.
  void will_write(const autograd::OpCall& call) override {
    recording_.captures.check_write(call, reached_.has_unwritten(call.inputs[0]));
    FirstRunObserver::will_write(call);
    reached_.note_write(call.inputs);
    note_edges(call.inputs);
  }

 private:
  void note_edges(const TensorList& inputs) {
    for (const Tensor& x : inputs) {
      Edge edge = gradient_edge(x);
      if (is_from_outside(edge, node_) && std::find(edges_.begin(), edges_.end(), edge) == edges_.end())
        edges_.push_back(std::move(edge));
    }
  }

  const autograd::Node& node_;
  std::vector<Edge>& edges_;
  Reached& reached_;
};

// Hooks that leave saved tensors, and the check of their versions, as they are, but count them.
struct Seen {
  Tensor tensor;
  uint64_t version;
};
std::any seen(RunStats& counted, const Tensor& x) {
  counted.saved(x);
  return Seen{x, x.version()};
}
Tensor unseen(const std::any& packed) {
  const auto& [x, version] = std::any_cast<const Seen&>(packed);
  check(x.version() == version, "checkpoint: a tensor of shape ", x.shape(),
        " that backward needs was changed in place inside the checkpoint: it is at version ", x.version(),
        ", saved at ", version);
  return x;
}

void warn_once() {
  static std::atomic<bool> warned{false};
  if (warned.exchange(true)) return;
  std::cerr
      << "checkpoint: warning: nothing that a reentrant checkpoint was given or captured requires grad: "
         "its outputs have no gradient\n";
}

// The node has an edge for each tensor that the region reads: its inputs, and all that `fn` captured. So a
// leaf gets its gradient once in a pass, and its hooks run once: Note [Same sums].
class ReentrantNode final : public autograd::Node, public std::enable_shared_from_this<ReentrantNode> {
 public:
  TensorList first_run(const std::shared_ptr<Body>& body, const TensorList& inputs,
                       const std::vector<std::string>& paths, const CheckpointOptions& options);
  TensorList run(TensorList&& output_grads) override;
  void release() override { recording_.reset(); }
  bool takes_undefined_gradients() const override { return true; }
  const char* op_name() const override { return "checkpoint"; }

 private:
  void attach(TensorList& outputs, const TensorList& inputs, const Reached& reached);
  TensorList play_again(const TensorList& inputs);
  void check_outputs(const TensorList& outputs) const;
  void check_origins(const TensorList& outputs, std::optional<Provenance>& replay) const;

  std::optional<Recording> recording_;  // until it is released
  size_t input_count_ = 0;              // the first edges; those of captured tensors follow
  size_t result_count_ = 0;             // what `fn` returns, in which the node's outputs are at:
  std::vector<size_t> places_;
  std::vector<uint64_t> origins_;  // of what the first run returned
};

TensorList ReentrantNode::first_run(const std::shared_ptr<Body>& body, const TensorList& inputs,
                                    const std::vector<std::string>& paths, const CheckpointOptions& options) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto here = inputs.begin() + int64_t(i);
    bool again = std::any_of(inputs.begin(), here, same_as(*here));  // the first one stands for both
    edges_.push_back(again ? Edge() : gradient_edge(inputs[i]));
  }
  input_count_ = inputs.size();
  autograd::OpObserver::notify_begin({op_name(), inputs});
  autograd::OpObserver::notify(op_name(), inputs, {});
  Recording& recording = recording_.emplace(body, inputs, paths, options);
  Reached reached;
  reached.note(inputs, {});
  TensorList outputs;
  {
    NoGrad guard;
    autograd::InsideOp inside(
        autograd::InsideOp::Of::region);  // for the regions around, this is one operation
    CaptureObserver observer(recording, inputs, *this, edges_, reached);
    std::optional<autograd::DrawRecorder> recorder;
    if (options.preserve_rng) recorder.emplace(&recording.drawn);
    outputs = body->play(inputs);
    observer.finish();
    autograd::HideOpObservers unseen;
    for (const Tensor& y : outputs)
      origins_.push_back(recording.provenance ? recording.provenance->of(y) : 0);
  }
  attach(outputs, inputs, reached);
  return outputs;
}

// What `fn` made becomes the node's outputs, as new tensors: it may return what is held elsewhere. Inputs,
// tensors of the graph around that it only passed on, and those that no gradient reaches stay what they are.
void ReentrantNode::attach(TensorList& outputs, const TensorList& inputs, const Reached& reached) {
  result_count_ = outputs.size();
  SetDataObserver unseen(nullptr);
  bool any = false;
  for (const Edge& edge : edges_) any |= bool(edge);
  if (!any) {
    warn_once();
    return;
  }
  const TensorList returned = outputs;
  for (size_t i = 0; i < returned.size(); ++i) {
    const Tensor& y = returned[i];
    if (!y.defined() || !is_floating(y.dtype()) || contains(inputs, y)) continue;
    if (is_from_outside(gradient_edge(y), *this) || !reached.has(y)) continue;
    size_t first = size_t(std::find_if(returned.begin(), returned.end(), same_as(y)) - returned.begin());
    if (first < i) {
      outputs[i] = outputs[first];
      continue;
    }
    outputs[i] = y.alias(y.view()).show();
    set_grad_fn(outputs[i], shared_from_this(), int(places_.size()));
    places_.push_back(i);
    outputs_.push_back({y.shape(), y.dtype(), y.device()});
  }
}

TensorList ReentrantNode::play_again(const TensorList& inputs) {
  ReplayScope scope(*recording_);
  RunStats counted = recording_->count(CallStats::Run::replay, inputs);
  std::optional<autograd::SavedTensorHooks> hooks;
  if (counted.counts()) hooks.emplace([&counted](const Tensor& x) { return seen(counted, x); }, unseen);
  std::optional<Provenance> provenance = recording_->new_provenance(inputs);
  TensorList outputs;
  {
    RunObserver observer(provenance, *recording_);
    outputs = recording_->body->play(inputs);
  }
  counted.finish();
  check_outputs(outputs);
  check_origins(outputs, provenance);
  return outputs;
}

void ReentrantNode::check_origins(const TensorList& outputs, std::optional<Provenance>& replay) const {
  const std::optional<Provenance>& first = recording_->provenance;
  if (!first) return;
  for (size_t i : places_) {
    uint64_t now = replay->of(outputs[i]);
    check(now == origins_[i], "checkpoint: fn did something else when it was played again: ",
          now == origins_[i]
              ? ""
              : first->difference(reprise::detail::join("output ", i), origins_[i], *replay, now));
  }
}

void ReentrantNode::check_outputs(const TensorList& outputs) const {
  check(outputs.size() == result_count_, "checkpoint: fn returned ", result_count_,
        " tensors in the first run, ", outputs.size(), " in the replay");
  bool any = false;
  for (size_t i = 0; i < places_.size(); ++i) {
    const Tensor& y = outputs[places_[i]];
    const autograd::OutputMeta& first = outputs_[i];
    check(y.defined(), "checkpoint: output ", places_[i], " is undefined in the replay");
    check(y.shape() == first.shape, "checkpoint: output ", places_[i], " had shape ", first.shape,
          ", in the replay it has ", y.shape());
    check(y.dtype() == first.dtype, "checkpoint: output ", places_[i], " was ", first.dtype,
          ", in the replay it is ", y.dtype());
    check(y.device() == first.device, "checkpoint: output ", places_[i], " was on ", first.device,
          ", in the replay it is on ", y.device());
    any |= y.requires_grad();
  }
  check(any, "checkpoint: no output of fn requires grad; there is nothing to play again for");
}

TensorList ReentrantNode::run(TensorList&& output_grads) {
  check(recording_.has_value(),
        "checkpoint: backward a second time through a graph whose saved tensors are gone; pass "
        "retain_graph = true to the first");
  check(!autograd::grad_mode_enabled(),
        "checkpoint: reentrant checkpoint is incompatible with create_graph; use mode non_reentrant");
  check(!autograd::GraphTask::running()->is_restricted(),
        "checkpoint: reentrant checkpoint is incompatible with grad() or backward(inputs); use mode "
        "non_reentrant");
  TensorList inputs = recording_->inputs.rebuild();
  recording_->captures.check_versions();
  TensorList outputs = play_again(inputs);

  std::vector<Edge> ends;  // at the leaves of its own, and at captured tensors
  for (size_t i = 0; i < edges_.size(); ++i)
    ends.push_back(edges_[i] && i < input_count_ ? gradient_edge(inputs[i]) : edges_[i]);
  autograd::NestedPass pass(ends, edges_, /*takes_over=*/!shows_input_gradients());
  for (size_t i = 0; i < places_.size(); ++i) {
    Edge edge = gradient_edge(outputs[places_[i]]);
    if (edge && output_grads[i].defined()) pass.add_root(edge, std::move(output_grads[i]));
  }
  outputs.clear();
  pass.run();
  return pass.take_sums();
}

}  // namespace

TensorList run_reentrant(const std::shared_ptr<Body>& body, const TensorList& inputs,
                         const std::vector<std::string>& paths, const CheckpointOptions& options) {
  return autograd::make_node<ReentrantNode>()->first_run(body, inputs, paths, options);
}

}  // namespace reprise::recompute
