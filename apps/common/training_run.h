// What every program that trains does around the loop: checks of folder and numbers, memory, resuming, the last line.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "reprise/apps/common/training_options.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/recompute/planner/profile.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/core/device.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/sharded_sgd.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/module.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/train/precision.h"
#include "reprise/train/run_lock.h"

namespace reprise::apps {

/// The device of the options, once threads, memory limit, attention and schedule are set as they say. Error naming the
/// option that does not fit.
Device apply_training_options(TrainingOptions& options);

/// Makes attention on `device` use the kernels of this name. Error if they do not exist, are not in this
/// build, or are not for the device.
void use_attention(const std::string& name, Device device);

/// The precision of the options, or of the run in this folder where they leave it open, as long as the scope lives; that of
/// f32 products holds for the whole program.
train::PrecisionScope precision_scope(const DeviceOptions& options, Device device,
                                      const std::string& run_folder = "");

/// Gives a model that was read from a run the weights of that precision.
void take_precision(nn::Module& model, const DeviceOptions& options, const std::string& run_folder);
/// The same for one to train, with gradients as the options say.
void take_precision(nn::Module& model, const TrainingOptions& options);
/// Gradients are added as --reduce says and sent as --wire does.
void set_sums(distributed::DataParallel& parallel, const TrainingOptions& options);
/// What --master names.
optim::Master master_of(const std::string& name);
/// What --master and --moments name.
void set_storage(optim::AdamWOptions& adamw, const std::string& master, const std::string& moments);
/// AdamW with the betas of the options, which keeps weights of 16 bits as they say, and is shared by ranks as --zero says.
std::unique_ptr<optim::AdamW> make_adamw(distributed::DataParallel& parallel,
                                         std::vector<optim::ParameterGroup> groups,
                                         const TrainingOptions& options);
/// Sgd, which keeps weights of 16 bits likewise, and is shared likewise.
std::unique_ptr<optim::Sgd> make_sgd(distributed::DataParallel& parallel,
                                     std::vector<optim::ParameterGroup> groups,
                                     const TrainingOptions& options, optim::SgdOptions sgd);
/// Averages of the weights that `parallel` trains, as they are now; null if the decay is 0. All ranks call it.
std::unique_ptr<optim::Ema> make_averages(distributed::DataParallel& parallel, double decay);

/// Error unless a new run may be written to --out, or a run there can go on; of the latter the lock, before anything of
/// it is read. Rank 0 asks for all.
std::optional<train::RunLock> check_folder(const TrainingOptions& options);

struct ImaginedTraining;

/// What a program trains, as far as its memory goes.
struct TrainedModel {
  nn::Module& model;
  optim::Optimizer& optimizer;
  std::function<void(const RecomputeStrategy&)> set_recompute;
  std::string row;                                ///< "image"
  std::function<Tensor(int64_t rows)> loss;       ///< of a micro-batch, as training computes it
  int64_t smallest = 1;                           ///< rows that it takes
  nn::RecomputeSetting* blocks = nullptr;         ///< that `set_recompute` sets, and the planner plans
  distributed::DataParallel* parallel = nullptr;  ///< of the optimizer; null: nothing is shared
  const optim::Ema* ema = nullptr;                ///< by which the model is evaluated; null: by its weights
  /// The same again, on the CPU, for the ranks of an imagined group, which outlives it: as training begins, with the optimizer's state
  /// there (shared_memory.h).
  std::function<ImaginedTraining(distributed::ProcessGroup& group)> imagine{};
};

/// Of one set of gradients of what it trains.
size_t gradient_bytes(optim::Optimizer& optimizer);

/// Bytes of the windows that hold buckets of `gradients` bytes on each of so many ranks, while forward runs too, where NCCL has windows:
/// on GPUs, of whole gradients that are sent as they are.
size_t window_bytes(const TrainingOptions& options, size_t gradients, Device device, int ranks);

/// Measures a step of the run's batch for the planner.
using MeasureChain =
    std::function<reprise::recompute::Chain(const reprise::recompute::ProfileOptions& options)>;

/// Plans the blocks for the memory budget, if there is one, once all that a step holds for good is there. Each rank of the group
/// measures, with weights whole, and all take rank 0's plan.
void plan_for_budget(const TrainingOptions& options, const TrainedModel& trained,
                     distributed::ProcessGroup& group, const MeasureChain& measure);

/// Says what a step takes of the memory, without recompute and with it, and the largest batch that fits; with --batch
/// auto that becomes the batch, with so many micro-batches that an update sees as many rows as before (batch_choice.h). Error if a
/// step of the options takes more than there is, naming what would fit. Bits do not depend on it but by the batch. All ranks call it.
void report_memory(TrainingOptions& options, Device device, const TrainedModel& trained,
                   distributed::ProcessGroup& group);

/// How the data of a resumed run differs from that of the options.
struct DataDifference {
  std::set<std::string> options{};  ///< that name the data: another path to the same data is no change
  std::string source{};             ///< what --data is now
  bool known = false;               ///< the run has a record of its data
  std::string text{};               ///< what differs; empty: nothing
};
/// For --resume: one Error with all options that differ from the run's, with both values, unless --change was given and
/// none of them is `fixed`, which weights and optimizer state are made for.
void check_changes(const TrainingOptions& options, const std::set<std::string>& fixed,
                   const DataDifference& data);

/// Keeps the options in the run folder, durably. If those of a run at `first_step` changed, those before stay beside
/// as config-until-step-N.toml.
void keep_config(const TrainingOptions& options, int64_t first_step);

/// What the header of a run says of its recompute strategy, threads, changes and beginning, "Run: 100 steps of ROWS on
/// cpu (2 threads), into runs/gpt".
void print_run(const TrainingOptions& options, const nn::BlockStack& blocks, Device device,
               const std::string& rows, int64_t first_step);

/// Says how training ended and what to do next; the exit code. `program`: "reprise-gpt"; `judge`: its command that says
/// what the weights are worth.
int finish(const TrainingOptions& options, const train::TrainingResult& result, double seconds,
           const std::string& program, const std::string& result_text, const std::string& judge = "eval");

/// The newest run in runs/ with a checkpoint whose program has `option`: "context" is a GPT's. Error naming --run if
/// there is none.
std::string newest_run(const std::string& option);
/// The run folder of RUN, RUN/checkpoints/step-00000002 or the model.safetensors in it, wherever that is named from.
std::string run_folder_of(const std::string& weights);

}  // namespace reprise::apps
