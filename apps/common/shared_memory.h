// What training takes on one of several ranks. A real step cannot be played there by one rank alone: it sends gradients in buckets, and may
// share gradients and weights. So the same model is trained by an imagined rank.
#pragma once

#include <array>
#include <memory>

#include "reprise/apps/common/imagined_rank.h"
#include "reprise/apps/common/memory_advice.h"

namespace reprise::apps {

/// The same training again, on the ranks of an imagined group.
struct ImaginedTraining {
  std::shared_ptr<void> owner;  ///< of all that `trained` refers to
  TrainedModel trained;
};

/// Whether an imagined rank says what the run takes: on several ranks, but for GPUs at stages 0 and 1. Their gradients lie in NCCL's windows
/// (window_bytes) and a rank has all else whole, so that it plays a step itself, with the scratch memory of its GPU's kernels.
bool shares_steps(const TrainingOptions& options, const TrainedModel& trained);

/// What steps of this rank take; no other rank takes part. While it lives this thread computes nothing (NoCompute). The imagined model is
/// on the CPU, whatever the device: its kernels' scratch memory is the CPU's. In the end the default generator and the CPU's limit are as
/// before, and the allocator's peaks begin anew.
class SharedMemory {
 public:
  /// Of a run that `shares_steps`, between two steps, with the optimizer's state there. `trained` outlives it.
  SharedMemory(const TrainingOptions& options, const TrainedModel& trained, Device device);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;

  /// With a strategy, not an automatic one. `micro_batches`: over all ranks.
  nn::StepMemory measure(const RecomputeStrategy& strategy, int64_t micro_batches);
  /// The same of a rank's step whose last micro-batch finds 0 or 1 sets of gradients.
  nn::StepMemory measure_sums(const RecomputeStrategy& strategy, int64_t sums);
  /// As apps::measure_strategies, of steps of the options' micro-batches; with --batch auto of two per rank.
  std::vector<MeasuredStrategy> measure_strategies(const std::string& own);
  /// Of a batch that the run evaluates, by its averages where it has any.
  nn::StepMemory measure_evaluation();
  /// The most bytes of each category in a step of the fewest rows and of such micro-batches.
  std::array<size_t, memory_category_count> most();

 private:
  struct Imagined;
  int64_t micro_batches() const;

  const TrainingOptions& options_;
  const TrainedModel& trained_;
  const Device device_;
  std::unique_ptr<Imagined> imagined_;
};

}  // namespace reprise::apps
