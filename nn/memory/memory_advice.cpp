#include "reprise/nn/memory/memory_advice.h"

#include <algorithm>

#include "reprise/core/bytes.h"
#include "reprise/nn/memory/played_step.h"

namespace reprise::nn {
namespace {

using Kind = RecomputeStrategy::Kind;

int64_t largest_batch(const MeasuredStrategy& one, int64_t smallest, size_t limit) {
  return one.memory ? one.memory->largest(room_in(limit)) / smallest * smallest : 0;
}

std::string listed(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::vector<MeasuredStrategy> measure_strategies(Module& model, const StepMemoryOptions& options,
                                                 const std::string& own) {
  const RecomputeStrategy chosen = recompute::parse_strategy(own);
  StepMemoryOptions measured_by = options;
  if (!options.set_recompute) measured_by.set_recompute = [](const RecomputeStrategy&) {};
  const struct PutBack {
    const std::function<void(const RecomputeStrategy&)>& set;
    const RecomputeStrategy& own;
    ~PutBack() { set(own); }
  } put_back{measured_by.set_recompute, chosen};
  return measure_strategies(own, options.set_recompute != nullptr, [&](const RecomputeStrategy& strategy) {
    return measure_step(model, measured_by, strategy);
  });
}

std::vector<MeasuredStrategy> measure_strategies(
    const std::string& own, bool has_blocks,
    const std::function<StepMemory(const RecomputeStrategy& strategy)>& measure) {
  std::vector<std::string> strategies = {"none"};
  if (has_blocks) {
    strategies.insert(strategies.end(), {"selective", "full"});
    const bool is_automatic = recompute::parse_strategy(own).kind == Kind::automatic;
    if (!is_automatic && std::ranges::find(strategies, own) == strategies.end()) strategies.push_back(own);
  }
  std::vector<MeasuredStrategy> measured;
  for (const std::string& strategy : strategies) {
    measured.push_back({strategy, {}});
    try {
      measured.back().memory.emplace(measure(recompute::parse_strategy(strategy)));
    } catch (const OutOfMemory&) {
    } catch (const std::bad_alloc&) {}  // told by the table
  }
  return measured;
}

std::string each_strategy(const std::vector<MeasuredStrategy>& measured,
                          const std::function<std::string(const StepMemory&)>& number) {
  std::string text;
  for (const MeasuredStrategy& one : measured) {
    text += text.empty() ? "" : ", ";
    text += (one.memory ? number(*one.memory) : "too much") + " (" + one.strategy + ")";
  }
  return text;
}

std::string predicted_step(const std::vector<MeasuredStrategy>& measured, int64_t rows,
                           const std::string& row, size_t limit) {
  return reprise::detail::join(
      "a step of ", rows, ' ', row, "s is predicted to take ",
      each_strategy(measured, [&](const StepMemory& memory) { return format_bytes(memory.peak(rows)); }),
      " of ", format_bytes(limit));
}

FittingSteps fitting_steps(const std::vector<MeasuredStrategy>& measured, const std::string& own,
                           int64_t rows, int64_t smallest, size_t limit) {
  FittingSteps fitting{.own = own, .rows = rows, .smallest = smallest};
  size_t least = SIZE_MAX;  // what does not fit takes as much or more, whatever was predicted
  for (const MeasuredStrategy& one : measured)
    if (one.strategy == own && one.memory) least = one.memory->peak(rows);
  for (const MeasuredStrategy& one : measured) {
    const int64_t most = largest_batch(one, smallest, limit);
    if (most >= rows && one.memory->peak(rows) < least) fitting.strategies.push_back(one.strategy);
    if (one.strategy == own) fitting.own_rows = most;
    if (most > fitting.most_rows) fitting.most_rows = most, fitting.best = one.strategy;
  }
  return fitting;
}

std::string in_words(const FittingSteps& f, const AdviceWords& words) {
  const auto batch = [&](int64_t rows) { return words.batch + std::to_string(rows * words.ranks); };
  const std::string best = words.recompute + f.best;
  const int64_t own_rows = f.own_rows < f.rows ? f.own_rows : 0;
  if (!f.strategies.empty())
    return "; " + words.recompute + listed(f.strategies) + " would fit" +
           (own_rows > 0 ? "; so would " + batch(own_rows) : "");
  if (own_rows > 0)
    return "; " + batch(own_rows) + " would fit" +
           (f.best != f.own ? ", and " + batch(f.most_rows) + " with " + best : "");
  if (f.most_rows > 0 && f.most_rows < f.rows)
    return "; " + batch(f.most_rows) + " with " + best + " would fit";
  if (f.most_rows > 0) return unknown_fit;
  const std::string any = words.recompute.substr(0, words.recompute.find_last_not_of(' ') + 1);
  return "; not even " + batch(f.smallest) + " fits, with any " + any;
}

MemoryAdvice memory_advice(const TrainingStepCase& step) {
  std::optional<PlayedStep> played;
  try {
    played.emplace("memory_advice", step);
  } catch (const OutOfMemory&) { return {.budget = step.budget}; } catch (const std::bad_alloc&) {
    return {.budget = step.budget};
  }
  played->check_budget();
  const std::string own = to_string(played->strategy());
  StepMemoryOptions options{.device = played->device(),
                            .loss = step.loss,
                            .set_recompute = {},
                            .smallest = step.smallest,
                            .sums = step.sums,
                            .optimizer = step.optimizer};
  if (played->has_blocks())
    options.set_recompute = [&](const RecomputeStrategy& strategy) { played->set(strategy); };
  MemoryAdvice advice{.budget = played->budget()};
  step.model.zero_grad();
  advice.measured = measure_strategies(step.model, options, own);
  advice.fitting = fitting_steps(advice.measured, own, step.rows, step.smallest, advice.budget);
  return advice;
}

std::ostream& operator<<(std::ostream& out, const MemoryAdvice& advice) {
  if (advice.measured.empty()) return out << "the model and the state of its optimizer alone do not fit";
  return out << predicted_step(advice.measured, advice.fitting.rows, "row", advice.budget)
             << in_words(advice.fitting);
}

}  // namespace reprise::nn
