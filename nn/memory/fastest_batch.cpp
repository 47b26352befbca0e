#include "reprise/nn/memory/fastest_batch.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "reprise/autograd/recompute/planner/planner.h"
#include "reprise/core/no_compute.h"
#include "reprise/nn/memory/played_step.h"
#include "reprise/nn/memory/turns.h"

namespace reprise::nn {
namespace {

using Kind = RecomputeStrategy::Kind;

struct Candidate {
  RecomputeStrategy strategy;
  TimedBatch batch;
};

std::vector<int64_t> divisors(int64_t rows) {
  std::set<int64_t> found;
  for (int64_t d = 1; d <= rows / d; ++d)
    if (rows % d == 0) found.insert({d, rows / d});
  return {found.begin(), found.end()};
}

// Steps of any batch that may be chosen, and what they take.
class Choice {
 public:
  Choice(const char* op, const TrainingStepCase& step, const FastestBatchOptions& options)
      : op_(op), case_(at_smallest(step)), options_(options), played_(op, case_) {
    played_.check_budget();
    most_bytes_ = options.most_bytes ? options.most_bytes : room_in(played_.budget());
    const Allocator& memory = allocator(played_.device());
    for (const Tensor& x : step.model.parameters())
      if (x.requires_grad()) gradients_ += memory.block_size(size_t(x.numel()) * size_of(x.grad_dtype()));
    if (const int64_t all = options.rows_per_update; all != 0) {
      check(all > 0 && all % step.smallest == 0, op, ": ", all,
            " rows per update are no multiple of the smallest batch, ", step.smallest);
      allowed_ = divisors(all);
      std::erase_if(allowed_, [&](int64_t rows) { return rows % step.smallest != 0; });
    }
    measure();
  }
  ~Choice() {
    Allocator& memory = allocator(played_.device());
    memory.empty_cache();
    memory.reset_peaks();
  }
  Choice(const Choice&) = delete;

  const std::vector<RecomputeStrategy>& strategies() const { return strategies_; }

  size_t peak(const RecomputeStrategy& strategy, int64_t rows) {
    const int64_t sums = sums_of(rows);
    return memory(strategy, sums > 0).peak(rows) + more_gradients(rows);
  }
  // The largest batch up to so many rows that fits; 0: none.
  int64_t largest(const RecomputeStrategy& strategy, int64_t up_to) {
    if (allowed_.empty()) {
      const size_t more = std::min(most_bytes_, more_gradients(case_.smallest));
      const int64_t fits = memory(strategy, sums_of(case_.smallest) > 0).largest(most_bytes_ - more);
      return std::min(fits, up_to) / case_.smallest * case_.smallest;
    }
    for (auto rows = allowed_.rbegin(); rows != allowed_.rend(); ++rows)
      if (*rows <= up_to && peak(strategy, *rows) <= most_bytes_) return *rows;
    return 0;
  }
  // The largest above `least`, half of it and a quarter.
  std::vector<Candidate> largest_above(const RecomputeStrategy& strategy, int64_t least) {
    std::vector<Candidate> found;
    const int64_t most = largest(strategy, std::numeric_limits<int64_t>::max());
    for (int64_t part = 1; part <= 4; part *= 2) {
      const int64_t rows = largest(strategy, most / part);
      if (rows > least && (found.empty() || rows < found.back().batch.rows))
        found.push_back(candidate(strategy, rows, peak(strategy, rows)));
    }
    return found;
  }
  // Of the planner, for the rows of `others` and the next ones above these: what no strategy makes fit may fit by a plan.
  std::vector<Candidate> plans(const std::vector<Candidate>& others, int64_t least) {
    std::vector<Candidate> found;
    std::set<int64_t> rows;
    for (const Candidate& one : others) rows.insert(one.batch.rows);
    const auto above = std::ranges::upper_bound(allowed_, rows.empty() ? 0 : *rows.rbegin());
    if (above != allowed_.end()) rows.insert(*above);
    for (int64_t some : rows)
      if (some > least) add_plan(some, others, found);
    return found;
  }

  double play(const Candidate& one) {
    case_.rows = one.batch.rows;
    played_.set(one.strategy);
    return played_.time_parts();
  }
  bool runs(const Candidate& one) {
    try {
      play(one);
    } catch (const OutOfMemory&) {
      case_.model.zero_grad();
      return false;
    }
    return true;
  }

  TimedBatch least() {
    TimedBatch least{.strategy = "", .peak = SIZE_MAX};
    const std::vector<int64_t> batches = allowed_.empty() ? std::vector{case_.smallest} : allowed_;
    for (const RecomputeStrategy& strategy : strategies_)
      for (int64_t rows : batches)
        if (const size_t bytes = peak(strategy, rows); bytes < least.peak)
          least = candidate(strategy, rows, bytes).batch;
    return least;
  }

 private:
  static TrainingStepCase at_smallest(TrainingStepCase step) {
    step.rows = step.smallest;
    return step;
  }

  int64_t micro_batches(int64_t rows) const { return allowed_.empty() ? 1 : options_.rows_per_update / rows; }
  int64_t sums_of(int64_t rows) const {
    const int64_t micro = micro_batches(rows);
    if (options_.sums) return options_.sums(micro);
    return micro > 1 ? std::max<int64_t>(case_.sums, 1) : case_.sums;
  }
  // Bytes of the sums beside the one that a measured step finds.
  size_t more_gradients(int64_t rows) const {
    return size_t(std::max<int64_t>(sums_of(rows) - 1, 0)) * gradients_;
  }

  Candidate candidate(const RecomputeStrategy& strategy, int64_t rows, size_t bytes) const {
    return {
        strategy,
        {.strategy = to_string(strategy), .rows = rows, .peak = bytes, .micro_batches = micro_batches(rows)}};
  }

  StepMemory measured(const RecomputeStrategy& strategy, int64_t sums) const {
    return options_.measure ? options_.measure(strategy, sums) : played_.measure(strategy, sums);
  }
  // Without gradients before, or with a set of them.
  const StepMemory& memory(const RecomputeStrategy& strategy, bool finds_gradients) {
    const std::pair key{to_string(strategy), finds_gradients};
    auto known = memories_.find(key);
    if (known == memories_.end())
      known = memories_.emplace(key, measured(strategy, finds_gradients ? 1 : 0)).first;
    return known->second;
  }

  // Strategies that need more blocks than there are, and those whose smallest step does not fit, are left out.
  void measure() {
    std::exception_ptr refusal;
    for (const std::string& text : options_.strategies) {
      const RecomputeStrategy strategy = recompute::parse_strategy(text);
      check(strategy.kind != Kind::automatic, op_, ": 'auto' is a plan for one budget; see `plans`");
      if (!played_.has(strategy)) continue;
      try {
        for (bool finds_gradients : {false, true})
          if (asks_for(finds_gradients)) memory(strategy, finds_gradients);
        strategies_.push_back(strategy);
      } catch (const OutOfMemory&) {
        case_.model.zero_grad();
        refusal = std::current_exception();
      }
    }
    if (refusal && strategies_.empty()) std::rethrow_exception(refusal);
  }
  bool asks_for(bool gradients) const {
    auto finds = [&](int64_t rows) { return (sums_of(rows) > 0) == gradients; };
    return allowed_.empty() ? finds(case_.smallest) : std::ranges::any_of(allowed_, finds);
  }

  // What a step takes here beyond what it is to take.
  size_t more_here(int64_t rows) {
    if (!options_.measure) return 0;
    const RecomputeStrategy& strategy = strategies_.front();
    const int64_t sums = std::min<int64_t>(sums_of(rows), 1);
    const size_t here = played_.measure(strategy, sums).peak(rows),
                 there = memory(strategy, sums > 0).peak(rows);
    return here - std::min(here, there);
  }
  // The planner's prediction and that of the measured step differ a little: what is over is left out of the budget once.
  void add_plan(int64_t rows, const std::vector<Candidate>& others, std::vector<Candidate>& found) {
    size_t budget = most_bytes_ - std::min(most_bytes_, more_gradients(rows));
    try {
      budget += more_here(rows);
    } catch (const OutOfMemory&) {
      case_.model.zero_grad();
      return;
    }
    for (int tries = 0; tries < 2 && budget > 0; ++tries) {
      const std::optional<RecomputeStrategy> strategy = planned(rows, budget);
      if (!strategy || is_known(*strategy, rows, others)) return;
      try {
        const size_t bytes = peak(*strategy, rows);
        if (bytes <= most_bytes_) return found.push_back(candidate(*strategy, rows, bytes));
        budget -= std::min(budget, bytes - most_bytes_);
      } catch (const OutOfMemory&) {
        case_.model.zero_grad();
        return;
      }
    }
  }
  // None where there is no such plan.
  std::optional<RecomputeStrategy> planned(int64_t rows, size_t budget) {
    case_.rows = rows;
    try {
      return RecomputeStrategy{.kind = Kind::plan,
                               .plan = played_.planned({.kind = Kind::automatic, .memory_budget = budget})};
    } catch (const recompute::BudgetTooSmall&) {
    } catch (const OutOfMemory&) {}  // of the planner's own step
    case_.model.zero_grad();
    return {};
  }
  static bool is_known(const RecomputeStrategy& one, int64_t rows, const std::vector<Candidate>& others) {
    const int64_t blocks = one.plan.back().end;
    return one.plan == recompute::plan_none(blocks) ||
           std::ranges::any_of(others, [&](const Candidate& other) {
             const CheckpointOptions options = recompute::options_of(other.strategy);
             return other.batch.rows == rows && !options.policy && !options.offload &&
                    recompute::plan_of(other.strategy, blocks) == one.plan;
           });
  }

  const char* op_;
  TrainingStepCase case_;  // which `played_` refers to
  const FastestBatchOptions& options_;
  const PlayedStep played_;
  size_t most_bytes_ = 0, gradients_ = 0;  // the latter: of a set of them
  std::vector<int64_t> allowed_;           // empty: all multiples of the smallest
  std::vector<RecomputeStrategy> strategies_;
  std::map<std::pair<std::string, bool>, StepMemory> memories_;
};

}  // namespace

std::vector<TimedBatch> fastest_batches(const TrainingStepCase& step, const FastestBatchOptions& options) {
  constexpr auto op = "fastest_batches";
  check(!NoCompute::is_on(), op, ": within a NoCompute nothing can be timed");
  check(options.rounds >= 1, op, ": rounds must be at least 1, got ", options.rounds);
  Choice choice(op, step, options);
  int64_t without = 0;  // what fits without recompute
  for (const RecomputeStrategy& strategy : choice.strategies())
    if (strategy.kind == Kind::none) without = choice.largest(strategy, std::numeric_limits<int64_t>::max());
  std::vector<Candidate> candidates;
  for (const RecomputeStrategy& strategy : choice.strategies())
    for (Candidate& one : choice.largest_above(strategy, strategy.kind == Kind::none ? 0 : without))
      candidates.push_back(std::move(one));
  if (options.plans)
    for (Candidate& one : choice.plans(candidates, without)) candidates.push_back(std::move(one));

  std::erase_if(candidates,
                [&](const Candidate& one) { return !choice.runs(one); });  // the others have run once
  const std::vector<Turns> times = time_in_turns(
      candidates.size(), options.rounds, [&](size_t which) { return choice.play(candidates[which]); });
  std::vector<TimedBatch> timed;
  for (size_t i = 0; i < times.size(); ++i) {
    candidates[i].batch.seconds = times[i].seconds.median;
    timed.push_back(candidates[i].batch);
  }
  std::ranges::stable_sort(timed, std::ranges::greater(), &TimedBatch::rows_per_second);
  return timed;
}

TimedBatch least_batch(const TrainingStepCase& step, const FastestBatchOptions& options) {
  return Choice("least_batch", step, options).least();
}

}  // namespace reprise::nn
