// ImaginedRank: training on one of several ranks of which the others are imagined (distributed/imagined): what it takes, by shapes
// alone.
#pragma once

#include <array>
#include <functional>

#include "reprise/core/memory.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/sharded/sharded.h"
#include "reprise/nn/memory/step_memory.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/optimizer.h"

namespace reprise::apps {

/// What a step takes, in bytes of the CPU's allocator.
struct StepBytes {
  size_t peak = 0;         ///< of blocks
  size_t activations = 0;  ///< at their own peak, with what recompute makes in their place
  std::array<size_t, memory_category_count> most{};  ///< each category's own peak
};

/// A model in training as the programs train: micro-batches through DataParallel, the norm of the gradients, the update. Make it,
/// its model and its group within a NoCompute.
class ImaginedRank {
 public:
  /// `optimizer` is a distributed::SharedOptimizer; both outlive it. `loss`: of a micro-batch of so many rows.
  ImaginedRank(distributed::DataParallel& parallel, optim::Optimizer& optimizer,
               std::function<Tensor(int64_t rows)> loss);

  /// Of a step of so many micro-batches over all ranks; the allocator's peaks begin anew.
  StepBytes step(int64_t rows, int64_t micro_batches);
  /// The same for any rows, from small steps of `smallest` rows and multiples of them, in blocks of `device`, on which `beside` bytes are held
  /// beside what the CPU's allocator holds.
  nn::StepMemory measure(int64_t smallest, int64_t micro_batches, Device device, int64_t beside);
  /// Likewise of a batch that the ranks evaluate between two steps, by the averages where `ema` is not null.
  nn::StepMemory measure_evaluation(int64_t smallest, const optim::Ema* ema, Device device, int64_t beside);

 private:
  void begin(int64_t rows, int64_t micro_batches);
  void update(int64_t rows, int64_t micro_batches);

  Allocator& memory_ = allocator(Device::cpu());
  distributed::DataParallel& parallel_;
  optim::Optimizer& optimizer_;
  distributed::SharedOptimizer& shared_;  // the same
  const std::function<Tensor(int64_t rows)> loss_;
};

}  // namespace reprise::apps
