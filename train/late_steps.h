// LateSteps: updates of which the host learns later whether they were made.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/core/cuda/late_read.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/train/run_records.h"
#include "reprise/train/trainer.h"

namespace reprise::train {

/// The part of a training step that computes. Nothing in it waits for the device: loss and norm of a step arrive while the
/// next one is computed, and its record is made then. It does wait where a loss has a scale and the task wants to be told of
/// each update at once.
///
/// With a loss scale, a step whose gradients are not finite leaves parameters, state, averages and buffers as they were, and
/// training goes on. Without one it is the last: neither it nor a step after it changes parameters or state, until the host
/// learns of it and `settle` throws.
class LateSteps {
 public:
  /// A step whose numbers have arrived.
  struct Done {
    int64_t step;  ///< steps done by then
    double loss;
    RunRecords::Values values;
    std::string notice{};  ///< a line for the terminal, if it was skipped
  };
  using Take = std::function<void(Done done)>;

  /// After `first_step` steps; `scaler` may be null. Waits for the device.
  LateSteps(Task& task, const TrainerOptions& options, distributed::DataParallel& parallel,
            optim::GradScaler* scaler, int64_t first_step);

  void begin();                                  ///< before the forward passes of a step
  void backward(const Tensor& loss, int64_t g);  ///< of micro-batch g
  /// The update, if all losses and gradients are finite.
  void step();
  /// Ends the step, which becomes number `step`; `values`: what else is recorded of it.
  void end(int64_t step, RunRecords::Values values);
  /// Gives `take` the steps whose numbers are there, in order. Waits for the eldest until at most `most` are left. Error,
  /// naming step and tensor, of a step that could not be made (with a loss scale: where no scale helps, GradScaler::read).
  void settle(size_t most, const Take& take);

 private:
  struct Pending {
    Pending(const optim::GradScaler* scaler, Device device) : numbers(device, 3) {
      if (scaler) stats.emplace(*scaler);
    }
    bool is_done() const { return numbers.is_done() && (!stats || stats->is_done()); }
    int64_t step = 0;
    RunRecords::Values values;
    std::vector<std::string> names;  // of the parameters with a gradient, as the optimizer has them
    TensorList losses;               // of all micro-batches, f64
    std::optional<optim::GradScaler::Reading> stats;
    cuda::LateRead
        numbers;  // the sum of the losses, whether the update was found wanting; without a scale the norm
  };
  Device device() const { return parameters_.at(0).second.device(); }
  Done finish(Pending& pending);
  void finish_scaled(Pending& pending, size_t found, Done& done);
  void refuse(const Pending& pending, size_t found) const;
  std::string bad_loss(const Pending& pending) const;
  std::string bad_tensor(const Pending& pending, size_t found) const;
  std::vector<std::string> names_with_gradient() const;
  void put_back_buffers();
  void add_losses();
  void step_scaled();
  void step_unscaled();

  Task& task_;
  const TrainerOptions& options_;
  distributed::DataParallel& parallel_;
  optim::GradScaler* scaler_;  // null: the loss has no scale
  int64_t updates_at_0_ = 0;   // steps that were no updates: made so far, less steps and skips
  double scale_ = 1;           // before the eldest that is pending
  TensorList losses_;          // of the step's micro-batches, f64: this rank's, then all
  Tensor total_;               // their sum
  Tensor found_;               // i32: not 0 if the newest step was not made; without a scale it stays so
  nn::NamedTensors buffers_;
  std::vector<std::pair<std::string, Tensor>> parameters_;
  std::unique_ptr<Pending> current_;
  std::deque<std::unique_ptr<Pending>> pending_, idle_;
};

}  // namespace reprise::train
