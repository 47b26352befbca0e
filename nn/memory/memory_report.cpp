#include "reprise/nn/memory/memory_report.h"

#include <algorithm>
#include <iomanip>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/recompute/planner/dry_run.h"
#include "reprise/core/no_compute.h"
#include "reprise/core/stream.h"
#include "reprise/nn/memory/memory_timeline.h"

namespace reprise::nn {
namespace {

using Kind = RecomputeStrategy::Kind;

size_t share_of(size_t budget) { return budget / 10 * 9; }

double median(std::vector<double> values) {
  const auto middle = values.begin() + int64_t(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The step as it is measured: its blocks, its device. What was set of the blocks is set again as it goes.
class Played {
 public:
  Played(const char* op, const TrainingStepCase& step)
      : step_(step), blocks_(step.blocks ? step.blocks : dynamic_cast<RecomputeSetting*>(&step.model)) {
    check(step.loss != nullptr, op, ": the step has no loss");
    check(step.smallest >= 1 && step.rows >= 1 && step.rows % step.smallest == 0, op, ": rows ", step.rows,
          " must be a multiple of the smallest batch, ", step.smallest);
    check(step.budget > 0 || !NoCompute::is_on(), op, ": within a NoCompute the budget is to be given");
    if (const TensorList all = step.model.parameters(); !all.empty()) device_ = all[0].device();
    if (step.optimizer) step.optimizer->allocate_state();
    if (!blocks_) return;
    own_ = blocks_->strategy();
    check(own_.kind != Kind::none || blocks_->recompute_plan() == recompute::plan_none(blocks_->size()), op,
          ": the model runs by a plan of its own; set the strategy `none` before, and the plan again after");
  }
  ~Played() {
    step_.model.zero_grad();
    if (blocks_) blocks_->set_recompute(own_);
  }
  Played(const Played&) = delete;

  Device device() const { return device_; }
  size_t budget() const { return step_.budget ? step_.budget : memory_for_tensors(device_); }

  /// Whether the model has the blocks that the strategy needs.
  bool has(const RecomputeStrategy& strategy) const {
    if (strategy.kind == Kind::none) return true;
    try {
      if (blocks_) recompute::plan_of(strategy, blocks_->size());
    } catch (const Error&) { return false; }
    return blocks_ != nullptr;
  }
  void set(const RecomputeStrategy& strategy) const {
    if (blocks_) blocks_->set_recompute(strategy);
  }

  StepMemory measure(const RecomputeStrategy& strategy) const {
    return measure_step(step_.model,
                        {.device = device_,
                         .loss = step_.loss,
                         .set_recompute = [this](const RecomputeStrategy& chosen) { set(chosen); },
                         .smallest = step_.smallest,
                         .optimizer = step_.optimizer},
                        strategy);
  }
  int64_t most_rows(const StepMemory& memory) const {
    return memory.largest(share_of(budget())) / step_.smallest * step_.smallest;
  }

  /// Seconds of forward and backward, of a step that leaves no trace.
  double play() const {
    const recompute::DryRun dry_run;
    synchronize(device_);
    const auto begin = std::chrono::steady_clock::now();
    step_.loss(step_.rows).backward();
    synchronize(device_);
    const auto end = std::chrono::steady_clock::now();
    step_.model.zero_grad();
    return std::chrono::duration<double>(end - begin).count();
  }

 private:
  const TrainingStepCase& step_;
  RecomputeSetting* blocks_;
  Device device_;
  RecomputeStrategy own_;
};

struct Measured {
  RecomputeStrategy strategy;
  StrategyMemory* result;
};

// One step whose allocations are recorded; false if it did not fit after all, as where the budget is more than there is.
bool record_step(const Played& step, const Measured& one) {
  step.set(one.strategy);
  MemoryRecorder recorder(step.device());
  try {
    step.play();
  } catch (const OutOfMemory&) { return one.result->fits = false; }
  one.result->peak_activations = recorder.finish().peak_activations();
  return true;
}

// In turns, so that whatever else the machine does meets all of them.
void time_steps(const Played& step, const std::vector<Measured>& fitting, int rounds) {
  std::vector<std::vector<double>> seconds(fitting.size()), ratios(fitting.size());
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < fitting.size(); ++i) {
      const size_t turn = (i + size_t(round)) % fitting.size();
      step.set(fitting[turn].strategy);
      seconds[turn].push_back(step.play());
    }
    for (size_t i = 0; i < fitting.size(); ++i) ratios[i].push_back(seconds[i].back() / seconds[0].back());
  }
  for (size_t i = 0; i < fitting.size() && rounds > 0; ++i) {
    fitting[i].result->seconds = median(seconds[i]);
    fitting[i].result->times_slower = median(ratios[i]);
  }
}

std::string in_mib(size_t bytes) {
  TextStream out;
  out << std::fixed << std::setprecision(1) << double(bytes) / (1 << 20);
  return out.str();
}

}  // namespace

std::optional<size_t> MemoryReport::best() const {
  std::optional<size_t> best;
  for (size_t i = 0; i < strategies.size(); ++i)
    if (strategies[i].fits && (!best || strategies[i].times_slower < strategies[*best].times_slower))
      best = i;
  return best;
}

MemoryReport memory_report(const TrainingStepCase& step, const MemoryReportOptions& options) {
  constexpr auto op = "memory_report";
  const Played played(op, step);
  MemoryReport report{
      .device = played.device(), .rows = step.rows, .budget = played.budget(), .strategies = {}};
  for (const Tensor& x : step.model.parameters()) {
    report.weights += size_t(x.numel()) * size_of(x.dtype());
    if (x.requires_grad()) report.gradients += size_t(x.numel()) * size_of(x.grad_dtype());
  }
  report.optimizer = allocator(report.device).stats().by_category[size_t(MemoryCategory::optimizer)];

  std::vector<RecomputeStrategy> strategies;
  for (const std::string& text : options.strategies) {
    const RecomputeStrategy strategy = recompute::parse_strategy(text);
    check(strategy.kind != Kind::automatic, op,
          ": 'auto' is a plan for one budget; see RecomputeSetting::plan");
    if (!played.has(strategy)) continue;
    strategies.push_back(strategy);
    report.strategies.push_back({.strategy = text});
  }
  std::vector<Measured> fitting;
  std::exception_ptr refusal;
  bool has_one = false;
  for (size_t i = 0; i < strategies.size(); ++i) {
    StrategyMemory& result = report.strategies[i];
    try {
      const StepMemory memory = played.measure(strategies[i]);
      result.peak = memory.peak(step.rows);
      result.most_rows = played.most_rows(memory);
      result.fits = result.peak <= report.budget;
      has_one = true;
    } catch (const OutOfMemory&) { refusal = std::current_exception(); }
    if (result.fits) fitting.push_back({strategies[i], &result});
  }
  if (refusal && !has_one) std::rethrow_exception(refusal);
  std::erase_if(fitting, [&](const Measured& one) { return !record_step(played, one); });
  if (!NoCompute::is_on()) time_steps(played, fitting, options.rounds);
  return report;
}

int64_t max_batch(const TrainingStepCase& step, const RecomputeStrategy& strategy) {
  const Played played("max_batch", step);
  return played.most_rows(played.measure(strategy));
}

std::ostream& operator<<(std::ostream& out, const MemoryReport& report) {
  TextStream text;
  text << std::fixed << "A step of " << report.rows << " rows on " << report.device << ", within "
       << in_mib(report.budget) << " MiB for tensors\n"
       << "weights " << in_mib(report.weights) << ", gradients " << in_mib(report.gradients) << ", optimizer "
       << in_mib(report.optimizer) << " MiB, however much is recomputed\n"
       << std::left << std::setw(26) << "recompute" << std::right << std::setw(12) << "peak MiB"
       << std::setw(18) << "activations MiB" << std::setw(12) << "step ms" << std::setw(10) << "slower"
       << std::setw(16) << "largest batch" << '\n';
  for (const StrategyMemory& s : report.strategies) {
    text << std::left << std::setw(26) << s.strategy << std::right << std::setw(12)
         << (s.peak ? in_mib(s.peak) : "too much");
    if (s.fits)
      text << std::setw(18) << in_mib(s.peak_activations);
    else
      text << std::setw(18) << "does not fit";
    if (s.seconds > 0)
      text << std::setprecision(1) << std::setw(12) << 1e3 * s.seconds << std::setprecision(2)
           << std::setw(10) << s.times_slower;
    else
      text << std::setw(12) << "-" << std::setw(10) << "-";
    text << std::setw(16) << s.most_rows << '\n';
  }
  const auto most = std::ranges::max_element(report.strategies, {}, &StrategyMemory::most_rows);
  if (const auto best = report.best())
    text << (report.strategies[*best].seconds > 0 ? "Fastest" : "First")
         << " that fits: " << report.strategies[*best].strategy << ".";
  else
    text << "No strategy fits.";
  if (most != report.strategies.end() && most->most_rows > 0)
    text << " The largest batch: " << most->most_rows << ", with " << most->strategy << ".";
  return out << text.str() << '\n';
}

}  // namespace reprise::nn
