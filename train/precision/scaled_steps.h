// ScaledSteps: updates with a loss scale, of which the host learns later whether they were made.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/core/cuda/late_read.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/train/run_records.h"
#include "reprise/train/trainer.h"

namespace reprise::train {

/// The part of a training step that a loss scale changes. Nothing in it waits for the device, save where the task wants to
/// be told of each update at once: loss, norm and scale of a step arrive while the next one is computed, and its record is
/// made then. A step whose gradients are not finite leaves parameters, state, averages and buffers as they were.
class ScaledSteps {
 public:
  /// A step whose numbers have arrived.
  struct Done {
    int64_t step;  ///< steps done by then
    double loss;
    RunRecords::Values values;
    std::string notice{};  ///< a line for the terminal, if it was skipped
  };
  using Take = std::function<void(Done done)>;

  /// After `first_step` steps. Waits for the device.
  ScaledSteps(Task& task, const TrainerOptions& options, distributed::DataParallel& parallel,
              optim::GradScaler& scaler, int64_t first_step);

  void begin();                                  ///< before the forward passes of a step
  void backward(const Tensor& loss, int64_t g);  ///< of micro-batch g
  /// The update, if all gradients are finite.
  void step();
  /// Ends the step, which becomes number `step`; `values`: what else is recorded of it.
  void end(int64_t step, RunRecords::Values values);
  /// Gives `take` the steps whose numbers are there, in order. Waits for the eldest until at most `most` are left. Error,
  /// naming step and tensor, where no scale helps (GradScaler::read).
  void settle(size_t most, const Take& take);

 private:
  struct Pending {
    Pending(const optim::GradScaler& scaler, Device device) : stats(scaler), loss(device, 2) {}
    int64_t step = 0;
    RunRecords::Values values;
    std::vector<std::string> names;  // of the parameters with a gradient, as the optimizer has them
    optim::GradScaler::Reading stats;
    cuda::LateRead loss;  // and whether the update was found wanting
  };
  Done finish(Pending& pending);
  std::vector<std::string> names_with_gradient() const;
  void put_back_buffers();
  void add_losses();

  Task& task_;
  const TrainerOptions& options_;
  distributed::DataParallel& parallel_;
  optim::GradScaler& scaler_;
  int64_t updates_at_0_;  // steps that were no updates: made so far, less steps and skips
  double scale_;          // before the eldest that is pending
  TensorList losses_;     // of this rank's micro-batches, f64
  Tensor total_;          // the loss of the step, f64
  nn::NamedTensors buffers_;
  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::unique_ptr<Pending> current_;
  std::deque<std::unique_ptr<Pending>> pending_, idle_;
};

}  // namespace reprise::train
