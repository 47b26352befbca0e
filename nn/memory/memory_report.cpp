#include "reprise/nn/memory/memory_report.h"

#include <algorithm>
#include <iomanip>

#include "reprise/core/bytes.h"
#include "reprise/core/no_compute.h"
#include "reprise/nn/memory/memory_timeline.h"
#include "reprise/nn/memory/played_step.h"
#include "reprise/nn/memory/turns.h"

namespace reprise::nn {
namespace {

using Kind = RecomputeStrategy::Kind;

int64_t most_rows(const PlayedStep& played, const TrainingStepCase& step, const StepMemory& memory) {
  return memory.largest(room_in(played.budget())) / step.smallest * step.smallest;
}

struct Measured {
  RecomputeStrategy strategy;
  StrategyMemory* result;
};

// One step whose allocations are recorded; false if it did not fit after all, as where the budget is more than there is.
bool record_step(const PlayedStep& step, const Measured& one) {
  step.set(one.strategy);
  MemoryRecorder recorder(step.device());
  try {
    step.play();
  } catch (const OutOfMemory&) { return one.result->fits = false; }
  one.result->peak_activations = recorder.finish().peak_activations();
  return true;
}

void time_steps(const PlayedStep& step, const std::vector<Measured>& fitting, int rounds) {
  const std::vector<Turns> times = time_in_turns(fitting.size(), rounds, [&](size_t way) {
    step.set(fitting[way].strategy);
    return step.play();
  });
  for (size_t i = 0; i < times.size(); ++i)
    fitting[i].result->seconds = times[i].seconds.median,
    fitting[i].result->times_slower = times[i].times_slower;
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
  const PlayedStep played(op, step);
  played.check_budget();
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
      result.most_rows = most_rows(played, step, memory);
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
  const PlayedStep played("max_batch", step);
  played.check_budget();
  return most_rows(played, step, played.measure(strategy));
}

std::ostream& operator<<(std::ostream& out, const MemoryReport& report) {
  TextStream text;
  text << std::fixed << "A step of " << report.rows << " rows on " << report.device << ", within "
       << format_bytes(report.budget) << " for tensors\n"
       << "weights " << format_bytes(report.weights) << ", gradients " << format_bytes(report.gradients)
       << ", optimizer " << format_bytes(report.optimizer) << ", however much is recomputed\n"
       << std::left << std::setw(26) << "recompute" << std::right << std::setw(12) << "peak" << std::setw(14)
       << "activations" << std::setw(12) << "step ms" << std::setw(10) << "slower" << std::setw(16)
       << "largest batch" << '\n';
  for (const StrategyMemory& s : report.strategies) {
    text << std::left << std::setw(26) << s.strategy << std::right << std::setw(12)
         << (s.peak ? format_bytes(s.peak) : "too much") << std::setw(14)
         << (s.fits ? format_bytes(s.peak_activations) : "does not fit");
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
