// What a training step will take of the device's memory, for any batch, from two small ones that are measured.
//
// A step of other rows makes the same tensors in the same order, and the bytes of each are a line in the rows. So
// the two measured sequences of allocations say what is held at each moment for any rows, block sizes included,
// and the peak may lie at another moment than in either.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/core/memory.h"
#include "reprise/nn/module.h"
#include "reprise/nn/optim/optimizer.h"

namespace reprise::nn {

/// What a step may take of a limit of memory if it is to fit for sure: a tenth stays free.
inline size_t room_in(size_t limit) { return limit / 10 * 9; }

/// All allocations and releases of a step of so many rows.
struct MeasuredStep {
  int64_t rows;                     ///< of its micro-batch
  size_t held_before;               ///< bytes of blocks when it began
  std::vector<MemoryEvent> events;  ///< in their order
};

/// The memory of a step as a function of its rows.
class StepMemory {
 public:
  /// From two steps of different rows, whose events on the device of `allocator` (which outlives this) were recorded.
  StepMemory(const MeasuredStep& smaller, const MeasuredStep& larger, const Allocator& allocator);

  /// Bytes of the blocks held at most, as MemoryStats::peak_held counts them. Rows below those measured count as
  /// those.
  size_t peak(int64_t rows) const;
  /// The most rows whose peak is at most `bytes`; 0: none.
  int64_t largest(size_t bytes) const;

 private:
  struct Change {
    int64_t bytes;  // of the smaller step; negative: a release
    double bytes_per_row;
  };
  const Allocator& allocator_;
  size_t held_before_;
  int64_t smallest_rows_;
  std::vector<Change> changes_;
};

/// The step that measure_step plays.
struct StepMemoryOptions {
  Device device;  ///< whose memory is asked about
  /// The loss of a micro-batch of so many rows, as training computes it.
  std::function<Tensor(int64_t rows)> loss;
  std::function<void(const RecomputeStrategy&)> set_recompute;  ///< of the model
  int64_t smallest = 1;  ///< rows that can be measured: 2 where pairs of them are mixed; multiples too
  int64_t sums = 0;  ///< sets of gradients that the last micro-batch of a step finds (distributed::most_sums)
  const optim::Optimizer* optimizer = nullptr;  ///< whose step follows; its state is there already
};

/// Of what `run` does with so many rows, from two small numbers of them, multiples of `smallest`. The peaks of the device's allocator begin
/// anew.
StepMemory measure_small_steps(Device device, int64_t smallest,
                               const std::function<MeasuredStep(int64_t rows)>& run);

/// Measures two small steps of `model`, forward, backward and the norm of the gradients, with this strategy, which stays set;
/// what the optimizer takes it says itself. Weights, buffers
/// and generators are as before, gradients are dropped, the allocator's peaks begin anew. OutOfMemory if they do not fit.
StepMemory measure_step(nn::Module& model, const StepMemoryOptions& options,
                        const RecomputeStrategy& strategy);

/// The same of evaluation: two small batches of `loss` in evaluation mode, without a graph and without gradients.
StepMemory measure_evaluation(nn::Module& model, Device device,
                              const std::function<Tensor(int64_t rows)>& loss, int64_t smallest = 1);

/// What tensors may take on the device: the allocator's limit; else what is free of a GPU's memory, or three quarters of
/// what the machine has available, with what the allocator has now.
size_t memory_for_tensors(Device device);

}  // namespace reprise::nn
