// reprise-recompute max-batch: the largest batch that has room in a limit, found by trying.
#include <algorithm>

#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/core/bytes.h"
#include "reprise/nn/memory/batch_search.h"
#include "reprise/nn/memory/step_memory.h"
#include "reprise/train/output.h"

namespace reprise::apps::recompute {
namespace {

void report(const MaxBatchCommand& c, const Workload& workload, Trainee& trainee,
            const std::string& strategy) {
  trainee.set_recompute(prepared_for(strategy, workload));
  const auto step = [&](int64_t rows) { trainee.step(0, workload.batch(0, rows)); };
  const nn::FoundBatch found =
      nn::try_max_batch(*trainee.model.module, step,
                        {.least = workload.least_rows, .largest = std::max(c.largest, workload.least_rows)});
  if (found.rows == 0) {
    train::print("{:<16}{:>12}   {}\n", strategy, "none", found.refusal);
    return;
  }
  std::vector<double> seconds;
  for (int64_t i = 0; i < c.steps; ++i) seconds.push_back(trainee.step(i, workload.batch(i, found.rows)));
  const nn::Spread spread = nn::spread_of(seconds);
  train::print("{:<16}{:>12}{:>14}{:>26}{:>12.0f}\n", strategy, found.rows, format_bytes(found.peak),
               in_ms(spread), double(found.rows * workload.units_per_row) / spread.median);
  if (found.refused == 0)
    train::print("  the search ended at --largest\n");
  else
    train::print("  with {}: {}\n", found.refused, found.refusal);
}

}  // namespace

int run_max_batch(const MaxBatchCommand& c) {
  size_t limit = parse_bytes(c.memory_limit);
  std::unique_ptr<Workload> made = make_workload(c.workload);
  const Workload& workload = *made;
  const std::string strategy = with_predictor(c.recompute, c.workload);
  prepared_for(strategy, workload);  // a wrong one is told now
  train::print("{}\nThe largest batch in {}, of which a tenth stays free\n\n", workload.to_string(),
               format_bytes(limit));
  Allocator& memory = allocator(workload.device);
  memory.set_limit(limit);
  Trainee trainee(workload);
  trainee.step(0,
               workload.batch(
                   0, workload.least_rows));  // makes the optimizer's moments, before anything can be refused
  train::print("{:<16}{:>12}{:>14}{:>26}{:>12}\n", "recompute", "batch", "peak memory",
               "step (least to most)", std::string(workload.units) + "/s");
  memory.set_limit(nn::room_in(limit));
  report(c, workload, trainee, "none");
  report(c, workload, trainee, strategy);
  return 0;
}

}  // namespace reprise::apps::recompute
