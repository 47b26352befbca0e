// Timing operations forward and backward.
#include "reprise/apps/recompute/step_trace.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/meta.h"

namespace reprise::apps::recompute {
namespace {

// A node outside all graphs, made to read the number that the next one would have.
class SequenceProbe final : public autograd::Node {
 public:
  TensorList run(TensorList&&) override { return {}; }
  const char* op_name() const override { return "probe"; }
};

}  // namespace

const char* name_of(Phase phase) {
  constexpr const char* names[] = {"forward", "backward", "replay", "update"};
  return names[size_t(phase)];
}

StepTrace::StepTrace(Device device) : device_(device) {}

double StepTrace::now() const {
  synchronize(device_);
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

void StepTrace::op_ran(const char* op_name, const TensorList& inputs, const TensorList&) {
  if (phase_ != Phase::forward) return;
  double end = now();
  std::string layer = autograd::op_scope();
  layers_[autograd::make_node<SequenceProbe>()->sequence()] = layer;
  slices_.push_back({Phase::forward, op_name, layer, last_, end});
  hook_producers(inputs);
  last_ = end;
}

// The operations that made these tensors have their place in the graph by now. Holding on to the tensors
// themselves until backward would change what is measured.
void StepTrace::hook_producers(const TensorList& tensors) {
  for (const Tensor& x : tensors) {
    if (!x.defined() || x.is_leaf()) continue;
    autograd::Edge edge = autograd::gradient_edge(x);
    if (!edge || !hooked_.insert(edge.node->sequence()).second) continue;
    auto layer = layers_.lower_bound(edge.node->sequence());
    Slice slice{Phase::backward, edge.node->op_name(), layer == layers_.end() ? "" : layer->second, 0, 0};
    edge.node->hooks().push_back({autograd::next_hook_id(), edge.input, [this, slice](const Tensor&) {
                                    enter(slice);
                                    return Tensor();
                                  }});
  }
}

// Operations of one replay, each timed from the one before it.
class StepTrace::ReplayObserver final : public autograd::OpObserver {
 public:
  explicit ReplayObserver(StepTrace& trace) : trace_(trace), last_(trace.now()) {}
  void op_ran(const char* op_name, const TensorList&, const TensorList&) override {
    double end = trace_.now();
    trace_.replayed_.push_back({Phase::replay, op_name, autograd::op_scope(), last_, end});
    last_ = end;
  }

 private:
  StepTrace& trace_;
  double last_;
};

std::shared_ptr<void> StepTrace::observe_replay() { return std::make_shared<ReplayObserver>(*this); }

// Ends the slice that runs, and begins another.
void StepTrace::enter(Slice next) {
  next.begin = now();
  if (!slices_.empty() && slices_.back().phase != Phase::forward) slices_.back().end = next.begin;
  slices_.push_back(std::move(next));
}

void StepTrace::begin_backward(const Tensor& loss) {
  phase_ = Phase::backward;
  hook_producers({loss});
}

void StepTrace::begin_update() {
  phase_ = Phase::update;
  enter({Phase::update, "update", "", 0, 0});
}

std::vector<Slice> StepTrace::finish(const std::vector<reprise::recompute::ReplayTime>& replays) {
  slices_.back().end = now();
  auto since_start = [this](Clock::time_point t) {
    return std::chrono::duration<double>(t - started_).count();
  };
  for (const auto& replay : replays) {
    Slice region{Phase::replay, "region", replay.name, since_start(replay.begin), since_start(replay.end)};
    for (Slice& slice : replayed_)  // the observer was there a moment before the region's clock ran
      if (slice.begin < region.begin && slice.end > region.begin) slice.begin = region.begin;
    slices_.push_back(std::move(region));
  }
  slices_.insert(slices_.end(), replayed_.begin(), replayed_.end());
  return std::move(slices_);
}

}  // namespace reprise::apps::recompute
