// Timing operations forward and backward.
#include "reprise/nn/memory/step_trace.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/recompute/thread_state.h"

namespace reprise::nn {
namespace {

// A node outside all graphs, made to read the number that the next one would have.
class SequenceProbe final : public autograd::Node {
 public:
  TensorList run(TensorList&&) override { return {}; }
  const char* op_name() const override { return "probe"; }
};

thread_local std::shared_ptr<StepTrace*> current;  // set by a StepTrace alone, as long as it lives

}  // namespace

const char* name_of(StepPhase phase) {
  constexpr const char* names[] = {"forward", "backward", "replay", "update"};
  return names[size_t(phase)];
}

StepTrace::StepTrace(Device device)
    : device_(device), self_(std::make_shared<StepTrace*>(this)), around_(std::exchange(current, self_)) {
  [[maybe_unused]] static const bool asked = (recompute::restore_in_replays(observe_replays), true);
}

StepTrace::~StepTrace() {
  *self_ = nullptr;
  current = std::move(around_);
}

double StepTrace::now() const {
  synchronize(device_);
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

void StepTrace::op_ran(const char* op_name, const TensorList& inputs, const TensorList&) {
  if (phase_ != StepPhase::forward) return;
  double end = now();
  std::string layer = autograd::op_scope();
  layers_[autograd::make_node<SequenceProbe>()->sequence()] = layer;
  slices_.push_back({StepPhase::forward, op_name, layer, last_, end});
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
    StepSlice slice{StepPhase::backward, edge.node->op_name(), layer == layers_.end() ? "" : layer->second, 0,
                    0};
    edge.node->hooks().push_back(
        {autograd::next_hook_id(), edge.input, [trace = self_, slice](const Tensor&) {
           if (*trace) (*trace)->enter(slice);
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
    trace_.replayed_.push_back({StepPhase::replay, op_name, autograd::op_scope(), last_, end});
    last_ = end;
  }

 private:
  StepTrace& trace_;
  double last_;
};

recompute::ScopeFactory StepTrace::observe_replays() {
  return [trace = current]() -> std::shared_ptr<void> {
    if (!trace || !*trace) return nullptr;
    return std::make_shared<ReplayObserver>(**trace);
  };
}

// Ends the slice that runs, and begins another.
void StepTrace::enter(StepSlice next) {
  next.begin = now();
  if (!slices_.empty() && slices_.back().phase != StepPhase::forward) slices_.back().end = next.begin;
  slices_.push_back(std::move(next));
}

void StepTrace::begin_backward(const Tensor& loss) {
  phase_ = StepPhase::backward;
  hook_producers({loss});
}

void StepTrace::begin_update() {
  phase_ = StepPhase::update;
  enter({StepPhase::update, "update", "", 0, 0});
}

std::vector<StepSlice> StepTrace::finish(const std::vector<recompute::ReplayTime>& replays) {
  slices_.back().end = now();
  auto since_start = [this](Clock::time_point t) {
    return std::chrono::duration<double>(t - started_).count();
  };
  for (const auto& replay : replays) {
    StepSlice region{StepPhase::replay, "region", replay.name, since_start(replay.begin),
                     since_start(replay.end)};
    for (StepSlice& slice : replayed_)  // the observer was there a moment before the region's clock ran
      if (slice.begin < region.begin && slice.end > region.begin) slice.begin = region.begin;
    slices_.push_back(std::move(region));
  }
  slices_.insert(slices_.end(), replayed_.begin(), replayed_.end());
  return std::move(slices_);
}

}  // namespace reprise::nn
