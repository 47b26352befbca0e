// The first run of a region and reading its slots.
#include "reprise/autograd/recompute/region.h"

#include <atomic>

#include "reprise/autograd/graph_task.h"
#include "reprise/autograd/recompute/replay.h"
#include "reprise/autograd/recompute/replay_scope.h"

namespace reprise::recompute {

namespace {

uint64_t next_region_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

// Sees the operations of the first run, and puts slots in the place of what they save.
class FirstRun final : public autograd::OpObserver {
 public:
  FirstRun(Region& region, const TensorList& inputs)
      : region_(region), counted_(region.log_, RegionLog::Run::first, inputs, region.captures_) {}
  void finish() { counted_.finish(); }

  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override {
    op_name_ = op_name;
    region_.captures_.note(inputs, outputs);
    counted_.saw_operation();
    if (region_.keeps_trace())
      region_.trace_.push_back(traced(op_name, outputs, region_.options_.determinism == Determinism::values));
  }

  std::shared_ptr<Slot> keep(const Tensor& x) {
    counted_.saved(x);
    auto slot = std::make_shared<Slot>(region_.shared_from_this(), region_.records_.size());
    region_.records_.push_back(record_of(x, op_name_));
    region_.slots_.push_back(slot);
    return slot;
  }

 private:
  Region& region_;
  CountedRun counted_;
  const char* op_name_ = "";
};

Region::Region(std::shared_ptr<Body> body, const TensorList& inputs, const std::vector<std::string>& paths,
               const CheckpointOptions& options)
    : body_(std::move(body)),
      options_(options),
      inputs_(inputs, paths, options.offload),
      captures_(inputs),
      id_(next_region_id()) {}

TensorList Region::first_run(const TensorList& inputs) {
  FirstRun run(*this, inputs);
  std::optional<autograd::DrawRecorder> recorder;
  if (options_.preserve_rng) recorder.emplace(&drawn_);
  autograd::SavedTensorHooks hooks([&run](const Tensor& x) { return std::any(run.keep(x)); },
                                   [](const std::any& packed) {
                                     const auto& slot = std::any_cast<const std::shared_ptr<Slot>&>(packed);
                                     return slot->region->read(slot->index);
                                   });
  std::shared_ptr<void> context = options_.context.forward ? options_.context.forward() : nullptr;
  TensorList outputs = body_->play(inputs);
  run.finish();
  captures_.finish();
  complete_ = true;
  return outputs;
}

Tensor Region::read(size_t index) {
  std::shared_ptr<void>* kept = autograd::GraphTask::kept_in_pass(id_);
  if (!kept) return replay()->take(index, records_[index]);
  if (!*kept) *kept = replay();
  return static_cast<Rebuilt*>(kept->get())->take(index, records_[index]);
}

std::shared_ptr<Rebuilt> Region::replay() {
  TensorList inputs = inputs_.rebuild();
  captures_.check_versions();
  std::lock_guard lock(mutex_);
  auto rebuilt = std::make_shared<Rebuilt>(records_.size());
  ReplayScope scope(options_.preserve_rng ? &drawn_ : nullptr, captures_, options_.context.replay);
  Replay run(*this, *rebuilt, inputs);
  autograd::SavedTensorHooks hooks([&run](const Tensor& x) { return run.keep(x); },
                                   [](const std::any& x) { return std::any_cast<Tensor>(x); });
  run.play(inputs);
  return rebuilt;
}

}  // namespace reprise::recompute
