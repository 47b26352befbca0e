// Recording steps, timing strategies.
#include "reprise/apps/recompute/measure.h"

#include <fmt/core.h>

#include <algorithm>

namespace reprise::apps::recompute {
RecordedStep record_step(Trainee& trainee, int64_t step, const Batch& batch) {
  RecordedStep recorded;
  Device device = batch.input.device();
  nn::MemoryRecorder recorder(device);
  {
    Tensor loss = trainee.forward(step, batch);
    recorded.held = nn::MemoryPoint{0, allocator(device).stats().by_category}.activations();
    loss.backward();
    recorded.loss = loss.item();
  }
  trainee.update();
  synchronize(device);
  recorded.timeline = recorder.finish();
  return recorded;
}

std::vector<StrategyResult> measure(const Workload& workload, const std::vector<std::string>& strategies,
                                    int64_t rounds) {
  Trainee trainee(workload);
  Batch batch = workload.batch(0, workload.rows);
  trainee.step(0, batch);  // makes the optimizer's moments
  std::vector<StrategyResult> results;
  std::vector<std::vector<double>> seconds(strategies.size());
  for (const std::string& strategy : strategies) {
    Prepared prepared = prepare(trainee, strategy, batch);
    trainee.set_recompute(prepared);
    StepMemory memory = record_step(trainee, 0, batch).memory();
    results.push_back({strategy, memory, std::move(prepared)});
  }
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < strategies.size(); ++i) {
      size_t turn = (i + size_t(round)) % strategies.size();
      trainee.set_recompute(results[turn].prepared);
      seconds[turn].push_back(trainee.step(round, batch));
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    std::vector<double> ratios;
    for (size_t round = 0; round < size_t(rounds); ++round)
      ratios.push_back(seconds[i][round] / seconds[0][round]);
    results[i].seconds = median(seconds[i]);
    results[i].times_slower = median(ratios);
  }
  return results;
}

double median(std::vector<double> values) {
  check(!values.empty(), "median: of no values");
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double percent_below(double base, double value) { return base > 0 ? 100 * (base - value) / base : 0; }
double overhead_percent(const StrategyResult& result) { return 100 * (result.times_slower - 1); }

std::string in_mib(size_t bytes) { return fmt::format("{:.1f} MiB", mib(bytes)); }

}  // namespace reprise::apps::recompute
