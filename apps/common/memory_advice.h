// What would have fitted, where memory runs out: nn/memory/memory_advice.h in the words of the programs' options.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reprise/apps/common/program.h"
#include "reprise/apps/common/training_run.h"
#include "reprise/nn/memory/memory_advice.h"
#include "reprise/train/phase.h"

namespace reprise::apps {

using nn::each_strategy;
using nn::MeasuredStrategy;

/// nn::measure_strategies of what a program trains. `sums`: see StepMemoryOptions.
std::vector<MeasuredStrategy> measure_strategies(const TrainedModel& trained, Device device,
                                                 const std::string& own, int64_t sums);
/// The same for the steps of a run. On several ranks an imagined one is measured, where `shares_steps` says so (shared_memory.h).
std::vector<MeasuredStrategy> measure_strategies(const TrainingOptions& options, const TrainedModel& trained,
                                                 Device device);
/// What a batch that the run evaluates takes, likewise.
nn::StepMemory measure_evaluation(const TrainingOptions& options, const TrainedModel& trained, Device device);

/// "; --recompute selective, full would fit; so would --batch 24": nn::in_words in the words of options. `ranks`: that share the rows
/// of a --batch.
std::string what_fits(const std::vector<MeasuredStrategy>& measured, const std::string& own, int64_t batch,
                      int64_t smallest, size_t limit, int64_t ranks = 1);
/// Ranks that share the rows of a --batch.
int64_t ranks_of_batch(const TrainingOptions& options);

/// What is asked of a model whose step did not fit.
struct AdviceCase {
  std::string recompute = "none";  ///< the run's
  int64_t batch = 1;
  Device device{};
  int64_t ranks = 1;  ///< see ranks_of_batch
  /// Measures the steps of the run.
  std::function<std::vector<MeasuredStrategy>(const TrainedModel& trained)> measure{};
  /// Measures a batch that the run evaluates.
  std::function<nn::StepMemory(const TrainedModel& trained)> measure_evaluation{};
  /// Bytes that windows of so many bytes of gradients will take yet; empty: none.
  std::function<size_t(size_t gradients)> windows_to_come{};
};
/// That of a run on the ranks of `group`, which outlives it.
AdviceCase advice_case(const TrainingOptions& options, Device device, const distributed::ProcessGroup& group);

/// "; a step of 12 rows is predicted to take 20.1 (none), 9.2 (full) of 13.0 MiB", and what_fits.
std::string step_advice(const AdviceCase& asked, const TrainedModel& trained);

/// Throws the Error of `refused` with what would have fitted. `trained` is asked for after all that the step held is gone.
[[noreturn]] void fail_with_advice(const train::OutOfMemoryIn& refused, const AdviceCase& asked,
                                   const std::function<TrainedModel()>& trained);

/// What `work` returns. Where memory runs out in a phase of it, the Error says what would have fitted.
template <class Work>
auto with_memory_advice(const AdviceCase& asked, const std::function<TrainedModel()>& trained, Work&& work) {
  try {
    return work();
  } catch (const train::OutOfMemoryIn& refused) { fail_with_advice(refused, asked, trained); }
}

/// What `work` returns. Where memory runs out in it outside all phases, before the first step, the Error says that it is not the step's.
int with_memory_advice_before_steps(const std::function<int()>& work);

/// What `work` returns, which evaluates `model` by batches. Where memory runs out in it, the Error says which batch would have
/// fitted. `loss`: of so many rows, as it is evaluated.
template <class Work>
auto with_evaluation_advice(nn::Module& model, int64_t batch, Device device,
                            const std::function<Tensor(int64_t rows)>& loss, Work&& work);

/// The same, once it has run out.
[[noreturn]] void fail_in_evaluation(const train::OutOfMemoryIn& refused, nn::Module& model, int64_t batch,
                                     Device device, const std::function<Tensor(int64_t rows)>& loss);

template <class Work>
auto with_evaluation_advice(nn::Module& model, int64_t batch, Device device,
                            const std::function<Tensor(int64_t rows)>& loss, Work&& work) {
  try {
    return train::in_phase(train::Phase::evaluation, work);
  } catch (const train::OutOfMemoryIn& refused) { fail_in_evaluation(refused, model, batch, device, loss); }
}

}  // namespace reprise::apps
