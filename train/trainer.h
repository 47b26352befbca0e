// The training loop that every app shares: schedule, accumulation, clipping, evaluation, logs, progress,
// checkpoints.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/module.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/nn/optim/schedule.h"
#include "reprise/train/validation.h"

namespace reprise::train {

/// How a Task is trained, and what is kept of it.
struct TrainerOptions {
  std::string run_folder;  ///< where everything is written
  bool resume = false;     ///< from its newest checkpoint, or from the beginning if it has none yet
  bool may_convert =
      false;  ///< a resumed checkpoint of another precision is converted to this one: else it is an Error
  optim::Schedule schedule;  ///< of the learning rate; its `steps` end the run
  std::optional<optim::Schedule>
      weight_decay{};                ///< of the groups that decay; empty: it stays as they have it
  int64_t accumulate = 1;            ///< micro-batches per update, over all ranks: a multiple of them
  uint64_t seed = 0;                 ///< of what forward passes draw
  double clip = 1.0;                 ///< largest gradient norm; 0: no clipping
  double loss_scale = 0;             ///< the first scale of the loss, a power of two, for f16; 0: none
  int64_t scale_interval = 2000;     ///< updates without an overflow before that scale doubles
  bool loss_scale_is_given = false;  ///< a resumed checkpoint without one begins with it: else it is an Error
  int64_t eval_every = 250;          ///< steps; 0: only at the end
  int64_t sample_every = 0;          ///< steps; 0: only at the end
  int64_t save_every = 500;          ///< steps; 0: only at the end
  int64_t stop_after = 0;            ///< stop (and save) after this many updates of this call; 0: never
  int keep = 2;                      ///< checkpoints kept
  /// Checkpoints before the last are copied to host memory and written while training goes on; empty: on a GPU alone, since
  /// on the CPU the copy takes the memory that the state has.
  std::optional<bool> save_async{};
  bool anomaly = false;         ///< check every gradient for NaN and inf, naming the operation
  double retry_seconds = 0.25;  ///< of the last save: before its second try; each later wait is twice as long
};

/// What an app trains.
struct Task {
  nn::Module& model;            ///< what is trained
  optim::Optimizer& optimizer;  ///< of its parameters
  optim::Ema* ema = nullptr;    ///< averages, which evaluations and samples see; null: there are none
  std::map<std::string, std::string> description{};  ///< kept in checkpoints, to build the model again
  std::set<std::string> changeable{};  ///< keys of it that may be other than the resumed checkpoint's
  /// Called when all is checked and restored, before anything is written or updated; on all ranks, as `loss`, `updated` and
  /// `validation_loss` are. The others are called on rank 0 alone.
  std::function<void(int64_t first_step)> begin{};
  std::string unit = "tokens";  ///< what progress counts
  int64_t units_per_step = 0;   ///< of all ranks
  /// The loss of one micro-batch, a pure function of (step, micro) and the random state, which is one of the seed, step and
  /// micro. A rank is asked for its own micro-batches only.
  std::function<Tensor(int64_t step, int64_t micro)> loss{};
  /// Called after each update of the weights; empty: nothing more follows them. On a GPU without a loss scale it may also be
  /// called, twice at most, after one that was not made, since the host is a step ahead of the Error about it.
  std::function<void()> updated{};
  /// Extra values to record for the last step, by name. Optional.
  std::function<std::vector<std::pair<std::string, double>>()> step_values{};
  /// A line for the terminal, asked for after each step; empty: there is nothing to say.
  std::function<std::string()> notice{};
  /// The mean loss over the held-out split, and the accuracy of models that answer, or over a part of it while training goes on (`whole` = false);
  /// the same on all ranks, which may share its batches (sums_of_batches of ranks/dealt_batches.h). This and `sample` run within a
  /// distributed::EvaluatedWeights: of weights that ranks share (ZeRO, stage 3) a block's are there while it is called. Both may give
  /// up by `stop_if_interrupted` (interrupt.h).
  std::function<Validation(bool whole)> validation_loss{};
  /// Shows what the model makes; the text also goes into the run folder. Empty: there is nothing to show.
  std::function<std::string()> sample{};
};

/// How training ended.
struct TrainingResult {
  int64_t step = 0;                             ///< updates of the run, those of earlier calls included
  int64_t updates = 0;                          ///< of this call
  double validation_loss = 0;                   ///< of the last evaluation
  std::optional<double> validation_accuracy{};  ///< of that one, of models that answer
  bool interrupted = false;                     ///< a signal came before all was done
};

/// Trains until `schedule.steps` updates are done, or a signal comes: Ctrl-C ends the step, saves and ends the run.
/// Writes metrics.jsonl, TensorBoard events, loss.svg, samples.txt and checkpoints into the run folder, which it makes where
/// there is none. Error if that has a checkpoint and the run is not to go on from it.
/// With recompute, a step's record has the seconds of its replays and the bytes they made anew.
/// Error if a loss or gradient is not finite, with the step and the first bad tensor: weights and the optimizer's state are as
/// they were before that step. With a loss scale such a step changes nothing, not even running statistics, and makes the scale
/// smaller (optim::GradScaler); a line says so. The host does not wait for a step before it begins the next: on a GPU loss,
/// norm, scale, skipped steps and updates so far are recorded, and that Error comes, one step late, but before an evaluation, a
/// sample or a save. The same Error before any save, if a weight, an average or the optimizer's state is not: nothing that is
/// not finite is saved. A record or checkpoint that cannot be written is told and tried again; only if the last
/// checkpoint cannot be saved, in several tries, it is an Error.
///
/// On the ranks of `parallel`, which has the task's model, each computes its share of a step's micro-batches
/// (distributed/data_parallel/data_parallel.h): weights, losses and norms have the bits of one process, whether or not the
/// optimizer is one that ranks share (distributed/sharded/sharded_adamw.h). All ranks evaluate, rank 0 alone samples and writes. What ranks
/// share stays so in the end: what reads weights then is within a distributed::WholeWeights or EvaluatedWeights. The run
/// folder is nothing to the others, unless they resume: then all read the same checkpoint, or it is an Error. A checkpoint is
/// whole, and the same from any ranks. A signal on any rank ends all after the same step. Batch norms' statistics are
/// folded over ranks; Error where forward passes change a buffer in another way. Records say what communication takes, and
/// how the ranks' times compare (train/ranks/rank_times.h): measured, and without an effect. Ranks whose weights or state differ
/// in a bit, when they save or after 1,000 steps, end by a DistributedError (train/ranks/same_state.h).
TrainingResult train(Task& task, const TrainerOptions& options, distributed::DataParallel& parallel);
/// The same in one process.
TrainingResult train(Task& task, const TrainerOptions& options);

}  // namespace reprise::train
