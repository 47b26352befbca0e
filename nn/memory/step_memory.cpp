#include "reprise/nn/memory/step_memory.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <utility>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/meta.h"
#include "reprise/autograd/recompute/planner/dry_run.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/nn/eval_scope.h"

namespace reprise::nn {
namespace {

constexpr int64_t most_measured_rows = 16;

// Gradients that a step made, or had begun to make, go with it.
struct DropGradients {
  nn::Module& model;
  ~DropGradients() { model.zero_grad(); }
};

struct StopRecording {
  Allocator& memory;
  ~StopRecording() { memory.stop_recording(); }
};

// What the measured steps leave in the allocator goes too.
struct ForgetPeaks {
  Allocator& memory;
  ~ForgetPeaks() {
    memory.empty_cache();
    memory.reset_peaks();
  }
};

// While it lives, each backward pass makes gradients of its own.
class AloneGradients {
 public:
  explicit AloneGradients(const nn::Module& model) {
    for (const Tensor& parameter : model.parameters())
      if (parameter.requires_grad())
        remove_.push_back(autograd::register_post_accumulate_hook(parameter, [] {}));
  }
  ~AloneGradients() {
    for (const auto& remove : remove_) remove();
  }
  AloneGradients(const AloneGradients&) = delete;

 private:
  std::vector<std::function<void()>> remove_;
};

// One batch of evaluation.
MeasuredStep look(nn::Module& model, Device device, const std::function<Tensor(int64_t rows)>& loss,
                  int64_t rows) {
  Allocator& memory = allocator(device);
  const EvalScope evaluation(model);
  MeasuredStep step{rows, memory.stats().held, {}};
  memory.start_recording();
  const StopRecording recording{memory};
  loss(rows);
  step.events = memory.stop_recording();
  return step;
}

// One step that leaves no trace.
MeasuredStep play(nn::Module& model, const StepMemoryOptions& options, int64_t rows) {
  Allocator& memory = allocator(options.device);
  const DropGradients gradients{model};
  const recompute::DryRun dry_run;
  auto micro_batch = [&] { options.loss(rows).backward(); };
  // Sums that wait for one another are DataParallel's, to which no product adds as it is made.
  const std::unique_ptr<AloneGradients> alone =
      options.sums > 1 ? std::make_unique<AloneGradients>(model) : nullptr;
  const size_t without = memory.stats().held;
  if (options.sums > 0) micro_batch();
  const size_t one = memory.stats().held - without;
  MeasuredStep step{rows, memory.stats().held + size_t(std::max<int64_t>(options.sums - 1, 0)) * one, {}};
  memory.start_recording();
  {
    const StopRecording recording{memory};
    micro_batch();
    optim::grad_norm(model.parameters());
    step.events = memory.stop_recording();
  }
  if (!options.optimizer) return step;
  const std::vector<size_t> temporaries = options.optimizer->step_temporaries();
  for (int64_t sign : {1, -1})
    for (size_t bytes : temporaries) step.events.push_back({.bytes = sign * int64_t(bytes)});
  return step;
}

int64_t peak_of(const std::vector<MemoryEvent>& events) {
  int64_t held = 0, peak = 0;
  for (const MemoryEvent& event : events) peak = std::max(peak, held += event.bytes);
  return peak;
}

// Bytes that the machine could give to programs, or 0; no more than a container (cgroup v2) may have.
size_t available_bytes() {
  size_t available = 0;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("MemAvailable:")) available = size_t(std::atoll(line.c_str() + 13)) << 10;
  size_t most = 0, used = 0;  // "max" is no number: there is no limit
  if (std::ifstream("/sys/fs/cgroup/memory.max") >> most &&
      std::ifstream("/sys/fs/cgroup/memory.current") >> used)
    available = std::min(available, most - std::min(most, used));
  return available;
}

}  // namespace

StepMemory::StepMemory(const MeasuredStep& smaller, const MeasuredStep& larger, const Allocator& allocator)
    : allocator_(allocator), held_before_(smaller.held_before), smallest_rows_(smaller.rows) {
  const double rows = double(larger.rows - smaller.rows);
  const std::vector<MemoryEvent>&few = smaller.events, &many = larger.events;
  if (few.size() == many.size()) {
    for (size_t i = 0; i < few.size(); ++i)
      changes_.push_back({few[i].bytes, double(many[i].bytes - few[i].bytes) / rows});
  } else {  // a kernel that took another way: a line through the peaks
    const int64_t low = peak_of(few), high = peak_of(many);
    changes_.push_back({low, double(high - low) / rows});
  }
}

size_t StepMemory::peak(int64_t rows) const {
  const double more = double(std::max<int64_t>(0, rows - smallest_rows_));
  double held = double(held_before_), peak = held;
  for (const Change& change : changes_) {
    const double bytes = double(change.bytes) + more * change.bytes_per_row;
    const double block = double(allocator_.block_size(size_t(std::abs(bytes) + 0.5)));
    held += bytes < 0 ? -block : block;
    peak = std::max(peak, held);
  }
  return size_t(peak);
}

int64_t StepMemory::largest(size_t bytes) const {
  constexpr int64_t most = int64_t(1) << 30;
  if (peak(1) > bytes) return 0;
  int64_t good = 1, bad = most;
  while (bad - good > 1) {
    const int64_t middle = good + (bad - good) / 2;
    (peak(middle) <= bytes ? good : bad) = middle;
  }
  return good;
}

StepMemory measure_small_steps(Device device, int64_t smallest,
                               const std::function<MeasuredStep(int64_t rows)>& run) {
  Allocator& memory = allocator(device);
  const ForgetPeaks forget{memory};
  run(smallest);  // makes what is made once
  MeasuredStep smaller = run(smallest), larger = run(2 * smallest);
  // Kernels may take another way for a row or two.
  while (smaller.events.size() != larger.events.size() && larger.rows < most_measured_rows) {
    smaller = std::move(larger);
    larger = run(2 * smaller.rows);
  }
  return StepMemory(smaller, larger, memory);
}

StepMemory measure_step(nn::Module& model, const StepMemoryOptions& options,
                        const RecomputeStrategy& strategy) {
  options.set_recompute(strategy);
  return measure_small_steps(options.device, options.smallest,
                             [&](int64_t rows) { return play(model, options, rows); });
}

StepMemory measure_evaluation(nn::Module& model, Device device,
                              const std::function<Tensor(int64_t rows)>& loss, int64_t smallest) {
  return measure_small_steps(device, smallest, [&](int64_t rows) { return look(model, device, loss, rows); });
}

size_t memory_for_tensors(Device device) {
  const Allocator& memory = allocator(device);
  if (memory.limit() > 0) return memory.limit();
  if (!device.is_cpu()) return cuda::free_memory(device.index) + memory.stats().reserved;
  return (available_bytes() + memory.stats().held) / 4 * 3;
}

}  // namespace reprise::nn
