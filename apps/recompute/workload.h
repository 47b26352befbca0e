// What the commands train: any model whose blocks may be recomputed, its optimizer and its batches.
#pragma once

#include <memory>
#include <optional>

#include "reprise/apps/recompute/options.h"
#include "reprise/autograd/recompute/planner/chain.h"
#include "reprise/nn/memory/memory_report.h"
#include "reprise/nn/module.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/recompute_setting.h"
#include "reprise/train/precision.h"

namespace reprise::apps::recompute {

struct Batch {
  Tensor input, targets;
};

/// What a model is told to do.
struct Prepared {
  struct Part {
    reprise::recompute::Plan plan;
    CheckpointOptions options;
  };
  Part blocks;
  std::optional<Part> predictor{};  ///< where the model has one
};

class Workload {
 public:
  struct Model {
    std::shared_ptr<nn::Module> module;
    nn::RecomputeSetting& blocks;  ///< the module's
    std::function<Tensor(const Batch& batch)> loss;
    /// Measures a training step for the planner.
    std::function<reprise::recompute::Chain(const Tensor& input)> profile;
    nn::RecomputeSetting* predictor = nullptr;  ///< the module's second stack of blocks; null: there is none
  };

  virtual ~Workload() = default;
  virtual Model make_model() const = 0;
  /// The batch of a step, a pure function of the seed, on the device.
  virtual Batch batch(int64_t step, int64_t rows) const = 0;
  /// "GPT: 6 layers, width 384, ...".
  virtual std::string to_string() const = 0;

  int64_t blocks = 0;            ///< of the model
  int64_t predictor_blocks = 0;  ///< of its predictor; 0: there is none
  int64_t rows = 0;              ///< per step
  int64_t least_rows = 1;        ///< that a step can train on
  int64_t units_per_row = 1;
  const char* units = "tokens";
  Device device;
  train::Precision precision = train::Precision::f32;  ///< of the weights; products follow the scope
  uint64_t seed = 0;

 protected:
  /// Sets device, precision, seed and the number of threads.
  explicit Workload(const WorkloadOptions& options);
  /// "4 x 256 tokens per step, on cpu (2 threads)" of `what` there is in a step.
  std::string per_step(const std::string& what) const;
};

/// The workload's model with the random weights of its seed, in its precision.
Workload::Model seeded_model(const Workload& workload);
void set_recompute(const Workload::Model& model, const Prepared& prepared);

/// AdamW as the commands train by it.
optim::AdamWOptions adamw_options(const StorageOptions& storage);

/// A model in training. Two that train on the same batches go through the same bits.
class Trainee {
 public:
  explicit Trainee(const Workload& the_workload, const StorageOptions& storage = {});

  /// The loss, with the random numbers of this step.
  Tensor forward(int64_t step, const Batch& batch);
  void set_recompute(const Prepared& prepared) { recompute::set_recompute(model, prepared); }
  void update();  ///< from the gradients, which are gone then
  /// Step 0 on this batch, as the library's measurements play it. The batch must outlive it.
  nn::TrainingStepCase step_case(const Batch& batch);
  /// All of a step; returns the seconds it took.
  double step(int64_t step, const Batch& batch);
  nn::NamedTensors gradients() const;
  optim::Optimizer& optimizer() { return optimizer_; }
  nn::NamedTensors optimizer_state() const { return optimizer_.state_dict(); }

  const Workload& workload;
  const Workload::Model model;

 private:
  optim::AdamW optimizer_;
};

}  // namespace reprise::apps::recompute
