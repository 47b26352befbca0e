// reprise-recompute max-batch: the largest batch under a hard limit, found by trying.
#include <algorithm>

#include "reprise/apps/common/sizes.h"
#include "reprise/apps/recompute/families.h"
#include "reprise/apps/recompute/measure.h"
#include "reprise/apps/recompute/options.h"
#include "reprise/train/output.h"

namespace reprise::apps::recompute {
namespace {

// Tries batches on one model, which goes on after a refusal.
class Search {
 public:
  Search(const Workload& workload, Trainee& trainee, int64_t largest)
      : workload_(workload), trainee_(trainee), largest_(largest) {}

  /// Whether a step with so many rows fits; notes the peak if it does, the refusal if not.
  bool fits(int64_t rows) {
    Allocator& memory = allocator(workload_.device);
    memory.empty_cache();
    memory.reset_peaks();
    try {
      trainee_.step(0, workload_.batch(0, rows));
      peaks_.emplace_back(rows, memory.stats().peak_held);
      return true;
    } catch (const OutOfMemory& refusal) {
      if (rows < refused_) refusal_ = refusal.what();
      refused_ = std::min(refused_, rows);
    }
    trainee_.model.module->zero_grad();  // those that backward had got to
    return false;
  }

  /// The largest batch that fits, at most `largest`; 0 if none does. Memory grows almost evenly with the
  /// rows, so two small batches tell where to look; from there on in growing strides, then by halves.
  int64_t run(size_t limit) {
    const int64_t least = workload_.least_rows;
    if (!fits(least)) return 0;
    int64_t good = least, bad = std::max(largest_, least) + 1, stride = 1;
    if (least + 1 < bad && fits(least + 1)) good = least + 1;
    int64_t next = good > least ? guess(limit) : least + 1;
    while (bad - good > 1) {
      next = std::clamp(next, good + 1, bad - 1);
      if (fits(next)) {
        good = next;
        next = bad <= largest_ ? std::min(good + stride, good + (bad - good) / 2) : good + stride;
      } else {
        bad = next;
        next = std::max(bad - stride, good + (bad - good) / 2);
      }
      stride *= 2;
    }
    return good;
  }

  /// What was said to the smallest batch that did not fit.
  const std::string& refusal() const { return refusal_; }
  size_t peak(int64_t rows) const {
    for (const auto& [tried, peak] : peaks_)
      if (tried == rows) return peak;
    return 0;
  }

 private:
  int64_t guess(size_t limit) const {
    const int64_t least = workload_.least_rows;
    double first = double(peak(least)), more = double(peak(least + 1)) - first;
    return more > 0 ? least + int64_t((double(limit) - first) / more) : largest_;
  }

  const Workload& workload_;
  Trainee& trainee_;
  int64_t largest_;
  std::vector<std::pair<int64_t, size_t>> peaks_;
  int64_t refused_ = INT64_MAX;  // the smallest batch that was, and what was said
  std::string refusal_;
};

void report(const MaxBatchCommand& c, const Workload& workload, Trainee& trainee, const std::string& strategy,
            size_t limit) {
  trainee.set_recompute(prepared_for(strategy, workload));
  Search search(workload, trainee, c.largest);
  int64_t rows = search.run(limit);
  if (rows == 0) {
    train::print("{:<16}{:>12}   {}\n", strategy, "none", search.refusal());
    return;
  }
  std::vector<double> seconds;
  for (int64_t step = 0; step < c.steps; ++step)
    seconds.push_back(trainee.step(step, workload.batch(step, rows)));
  double middle = median(seconds);
  train::print("{:<16}{:>12}{:>14}{:>12.1f} ms{:>12.0f}\n", strategy, rows, in_mib(search.peak(rows)),
               1e3 * middle, double(rows * workload.units_per_row) / middle);
  if (rows == c.largest)
    train::print("  the search ended at --largest\n");
  else
    train::print("  with {}: {}\n", rows + 1, search.refusal());
}

}  // namespace

int run_max_batch(const MaxBatchCommand& c) {
  size_t limit = parse_bytes(c.memory_limit);
  std::unique_ptr<Workload> made = make_workload(c.workload);
  const Workload& workload = *made;
  const std::string strategy = with_predictor(c.recompute, c.workload);
  prepared_for(strategy, workload);  // a wrong one is told now
  train::print("{}\nThe largest batch in {}\n\n", workload.to_string(), in_mib(limit));
  Allocator& memory = allocator(workload.device);
  memory.set_limit(limit);
  Trainee trainee(workload);
  trainee.step(0,
               workload.batch(
                   0, workload.least_rows));  // makes the optimizer's moments, before anything can be refused
  train::print("{:<16}{:>12}{:>14}{:>15}{:>12}\n", "recompute", "batch", "peak memory", "step",
               std::string(workload.units) + "/s");
  report(c, workload, trainee, "none", limit);
  report(c, workload, trainee, strategy, limit);
  return 0;
}

}  // namespace reprise::apps::recompute
