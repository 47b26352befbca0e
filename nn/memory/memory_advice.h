// What would have fitted where a training step ran out of memory: other strategies of recompute, and smaller batches.
//
//   try {
//     train(32);
//   } catch (const rp::OutOfMemory& refused) {
//     std::cerr << refused.what() << '\n' << rp::memory_advice({.model = net, .loss = loss, .optimizer = &optimizer, .rows = 32});
//   }
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "reprise/nn/memory/memory_report.h"
#include "reprise/nn/memory/step_memory.h"

namespace reprise::nn {

/// What an error of the lack of memory ends with where nothing was measured.
inline constexpr const char* unknown_fit = "; what would have fitted is not known";

/// A strategy of recompute, and what a step takes with it.
struct MeasuredStrategy {
  std::string strategy;              ///< as `parse_strategy` takes it
  std::optional<StepMemory> memory;  ///< none: not even the smallest batch fits
};

/// Without recompute, with two strategies, and with `own` if it is another one that can be measured; without `options.set_recompute`
/// there is nothing to recompute. `own` is set in the end.
std::vector<MeasuredStrategy> measure_strategies(Module& model, const StepMemoryOptions& options,
                                                 const std::string& own);

/// The same strategies by what `measure` says of each; `has_blocks`: there is something to recompute.
std::vector<MeasuredStrategy> measure_strategies(
    const std::string& own, bool has_blocks,
    const std::function<StepMemory(const RecomputeStrategy& strategy)>& measure);

/// "3102.0 (none), too much (full)", of what `number` makes of each strategy that fits.
std::string each_strategy(const std::vector<MeasuredStrategy>& measured,
                          const std::function<std::string(const StepMemory&)>& number);

/// "a step of 12 rows is predicted to take 20.1 (none), 9.2 (full) of 13.0 MiB".
std::string predicted_step(const std::vector<MeasuredStrategy>& measured, int64_t rows,
                           const std::string& row, size_t limit);

/// What fits in place of a step that did not.
struct FittingSteps {
  std::string own{};                      ///< its strategy
  int64_t rows = 0;                       ///< of its batch
  int64_t smallest = 1;                   ///< rows that can be asked for, and multiples of them
  std::vector<std::string> strategies{};  ///< with which as many rows fit, and take less than with its own
  /// That fit with its own strategy; as many as `rows`, or more: it was predicted to fit, and has not.
  int64_t own_rows = 0;
  int64_t most_rows = 0;  ///< that fit with any strategy; 0: none
  std::string best{};     ///< the strategy of these
};

/// The steps that fit, by what was measured, with a tenth of `limit` left free.
FittingSteps fitting_steps(const std::vector<MeasuredStrategy>& measured, const std::string& own,
                           int64_t rows, int64_t smallest, size_t limit);

/// How `in_words` calls what it advises.
struct AdviceWords {
  std::string recompute = "recompute ";  ///< before strategies
  std::string batch = "a batch of ";     ///< before rows
  int64_t ranks = 1;                     ///< that share such a batch
};
/// "; recompute selective, full would fit; so would a batch of 24": other strategies for this batch, a smaller batch, or both; or that
/// nothing would.
std::string in_words(const FittingSteps& fitting, const AdviceWords& words = {});

/// The answer. `<<` prints it as a line.
struct MemoryAdvice {
  size_t budget = 0;                         ///< bytes for tensors
  std::vector<MeasuredStrategy> measured{};  ///< empty: not even the optimizer's state fits
  FittingSteps fitting{};                    ///< the same as strategies and rows
};
/// "a step of 32 rows is predicted to take 20.1 (none), 12.9 (selective), 9.2 (full) of 13.0 MiB; recompute full would fit; ...".
std::ostream& operator<<(std::ostream& out, const MemoryAdvice& advice);

/// Measures small steps, once all that the failed one held is gone: behind its scope, as in a catch block. The model is as before; its
/// gradients are dropped, and the allocator's peaks begin anew. Errors as of `memory_report`, but for OutOfMemory, which is an answer.
MemoryAdvice memory_advice(const TrainingStepCase& step);

}  // namespace reprise::nn

namespace reprise {
using nn::FittingSteps;
using nn::memory_advice;
using nn::MemoryAdvice;
}  // namespace reprise
