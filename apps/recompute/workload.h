// What the commands train: any model with a stack of blocks, its optimizer and its batches.
#pragma once

#include <memory>

#include "reprise/apps/recompute/options.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/optim/adamw.h"

namespace reprise::apps::recompute {

struct Batch {
  Tensor input, targets;
};

class Workload {
 public:
  struct Model {
    std::shared_ptr<nn::Module> module;
    nn::BlockStack& blocks;  ///< the module's, called with the batch's input
    std::function<Tensor(const Batch& batch)> loss;
  };

  virtual ~Workload() = default;
  virtual Model make_model() const = 0;
  /// The batch of a step, a pure function of the seed, on the device.
  virtual Batch batch(int64_t step, int64_t rows) const = 0;
  /// "GPT: 6 layers, width 384, ...".
  virtual std::string to_string() const = 0;

  int64_t blocks = 0;         ///< of the model's stack
  int64_t rows = 0;           ///< per step
  int64_t units_per_row = 1;  ///< tokens
  Device device;
  uint64_t seed = 0;
};

/// Error naming the option that does not fit.
std::unique_ptr<Workload> make_workload(const WorkloadOptions& options);

/// A model in training. Two that train on the same batches go through the same bits.
class Trainee {
 public:
  explicit Trainee(const Workload& workload);

  /// The loss, with the random numbers of this step.
  Tensor forward(int64_t step, const Batch& batch);
  void update();  ///< from the gradients, which are gone then
  /// All of a step; returns the seconds it took.
  double step(int64_t step, const Batch& batch);
  nn::NamedTensors gradients() const;

  const Workload::Model model;

 private:
  const Workload& workload_;
  optim::AdamW optimizer_;
};

}  // namespace reprise::apps::recompute
