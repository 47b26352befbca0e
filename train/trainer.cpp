// The training loop.
#include "reprise/train/trainer.h"

#include <limits>
#include <optional>
#include <utility>

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/core/memory.h"
#include "reprise/distributed/flight/computation.h"
#include "reprise/distributed/hub/host_name.h"
#include "reprise/distributed/sharded/evaluated_weights.h"
#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/named_state.h"
#include "reprise/nn/registration.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/late_steps.h"
#include "reprise/train/made_folders.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/phase.h"
#include "reprise/train/precision/convert.h"
#include "reprise/train/progress.h"
#include "reprise/train/ranks/agreement.h"
#include "reprise/train/ranks/bucket_order.h"
#include "reprise/train/ranks/keyed_random.h"
#include "reprise/train/ranks/rank_times.h"
#include "reprise/train/ranks/same_state.h"
#include "reprise/train/ranks/state_origin.h"
#include "reprise/train/run_records.h"
#include "reprise/train/save.h"
#include "reprise/train/saver.h"

namespace reprise::train {
namespace {

class Trainer {
 public:
  Trainer(Task& task, const TrainerOptions& options, distributed::DataParallel& parallel,
          optim::GradScaler* scaler, int64_t first_step)
      : task_(task),
        options_(options),
        group_(parallel.group()),
        parallel_(parallel),
        scaler_(scaler),
        step_(first_step),
        samples_(any_rank(group_, writes() && task.sample)),
        parameters_(task.model.parameters()),
        progress_(first_step, options.schedule.steps, task.unit, parameters_.at(0).device()),
        shared_(share_folder()),
        saver_(
            {shared_.path, options.keep, options.retry_seconds,
             options.save_async.value_or(!parameters_.at(0).device().is_cpu()), shared_.group},
            first_step > 0 ? first_step : -1, writes() ? tell() : [](const std::string&) {}),
        times_(group_, tell(), group_.gather_text(distributed::host_name())),
        steps_(task, options, parallel_, scaler, first_step) {
    if (writes()) records_.emplace(options.run_folder, first_step, options.resume, tell());
  }

  TrainingResult run() {
    InterruptScope interrupts;
    const int64_t first = step_, end = stop_at(first);
    if (step_ > 0 && due(options_.eval_every) &&
        any_rank(group_, writes() && !records_->has(step_, "val_loss")))
      validate(false);  // cut short
    try {
      train_until(first, end);
    } catch (...) {
      parallel_.drop_gradients();
      settle(std::numeric_limits<size_t>::max());  // what was made before is recorded, or is the cause
      throw;
    }
    settle(0);
    const bool is_saved = saver_.saved_step() == step_;
    if (any_rank(group_, writes() && step_ > first && !is_saved)) save(true);
    return finish(first);
  }

 private:
  // Rank 0 alone has the terminal and the run folder.
  bool writes() const { return group_.rank() == 0; }

  void train_until(int64_t first, int64_t end) {
    while (step_ < end) {
      const Wishes all = agree(group_, {.stops = interrupted(),
                                        .saves = saver_.wants_another_try(step_ + 1),
                                        .writes = saver_.is_writing(),
                                        .numbers = times_.begin_step()});
      times_.hear(all.numbers);
      if (!all.writes) saver_.settle();
      if (all.stops) break;
      in_phase(Phase::step, [&] { update(); });
      follow(first, end, all.saves);
    }
  }

  // What a step may be followed by.
  void follow(int64_t first, int64_t end, bool tries_again) {
    const bool last = step_ == options_.schedule.steps;
    const bool evaluates = due(options_.eval_every) && !last, samples = due(options_.sample_every) && !last;
    const bool saves = (due(options_.save_every) || tries_again) && !last;
    settle(evaluates || samples || saves || step_ == first + 1 || step_ >= end ? 0 : 1);
    const bool compares = step_ % compare_ranks_every == 0;
    if (writes())
      if (std::string notice = task_.notice ? task_.notice() : ""; !notice.empty()) tell()(notice);
    if (evaluates) validate(false);
    if (writes())
      // The last step's own validation comes when the run has ended: what there is was of an older one.
      progress_.update(step_, loss_, last ? std::nullopt : validation_, lr_, task_.units_per_step,
                       due(options_.eval_every) || last);
    if (saves)
      save(false);
    else if (compares)
      check_same_state(group_, step_, task_.model, whole_state(task_.optimizer), scaler_);
    if (samples) sample();
  }

  TrainingResult finish(int64_t first) {
    const bool is_over = step_ == options_.schedule.steps;
    const bool complete = is_over && !any_rank(group_, !validate(true)) && sample();
    if (writes()) {
      progress_.break_line();
      records_->plot();
      records_->close();
    }
    // Where another rank has stopped all of them, this one had no signal.
    const bool stopped = !complete && (is_over || interrupted() || step_ < stop_at(first));
    TrainingResult result{.step = step_, .updates = step_ - first};
    result.interrupted = of_rank_0(group_, {double(stopped)}, "result")[0] != 0;
    if (validation_)
      result.validation_loss = validation_->loss, result.validation_accuracy = validation_->accuracy;
    return result;
  }

  int64_t stop_at(int64_t first) const {
    const int64_t end = options_.schedule.steps;
    return options_.stop_after > 0 ? std::min(end, first + options_.stop_after) : end;
  }

  bool due(int64_t every) const { return every > 0 && step_ % every == 0; }

  // What `compute` returns; the record of this rank's calls has it by this name.
  template <class Compute>
  auto recorded(const std::string& name, Compute&& compute) {
    const distributed::Computation scope(group_, name);
    return compute();
  }

  // One update of the parameters.
  void update() {
    group_.set_step(step_);
    Allocator& memory = allocator(parameters_.at(0).device());
    memory.reset_peaks();
    recompute::Accounting accounting;
    steps_.begin();
    for (int64_t g : parallel_.share(options_.accumulate)) {
      AnomalyMode anomaly(options_.anomaly);
      seed_micro_batch(options_.seed, step_, g);
      const std::string part = " of micro-batch " + std::to_string(g);
      const Tensor loss = recorded("forward" + part, [&] { return micro_batch_loss(g); });
      recorded("backward" + part, [&] { steps_.backward(loss, g); });
    }
    seed_update(options_.seed, step_);
    lr_ = options_.schedule(step_);
    task_.optimizer.set_lr(lr_);
    if (options_.weight_decay) task_.optimizer.set_weight_decay((*options_.weight_decay)(step_));
    RunRecords::Values values = {{"lr", lr_}};
    recorded("update", [&] { steps_.step(); });
    task_.optimizer.zero_grad();
    ++step_;
    times_.end_step(values);
    values.emplace_back("units_per_second", progress_.units_per_second());
    values.emplace_back("peak_bytes", double(memory.stats().peak_held));
    if (recompute::RegionStats replayed = accounting.total(); replayed.replays > 0) {
      values.emplace_back("recompute_seconds", replayed.replay_seconds);
      values.emplace_back("recomputed_bytes", double(replayed.bytes_recomputed));
    }
    const bool sums = due(options_.eval_every) || step_ == options_.schedule.steps;
    if (sums)
      distributed::SharedTensors(parallel_).read_on_rank_0([&](const distributed::WholeOf& whole) {
        values.emplace_back("weights_crc", weights_crc(task_.model, whole));
      });
    if (!writes()) return steps_.end(step_, {});
    if (task_.step_values)
      for (auto& value : task_.step_values()) values.push_back(std::move(value));
    steps_.end(step_, std::move(values));
  }

  Tensor micro_batch_loss(int64_t g) {
    Tensor loss = task_.loss(step_, g);
    if (!std::exchange(checked_, true)) nn::check_registered(task_.model, loss);
    return loss;
  }

  // Records the steps whose numbers have arrived; waits until at most `most` are left.
  void settle(size_t most) {
    steps_.settle(most, [&](LateSteps::Done done) {
      loss_ = done.loss;
      if (!writes()) return;
      records_->add(done.step, done.values);
      if (done.notice.empty()) return;
      progress_.break_line();
      report("{}\n", done.notice);
    });
  }

  // On all ranks. False if a signal ended it.
  bool validate(bool whole) {
    return with_averages(Phase::evaluation, [&] {
      validation_ = in_phase(Phase::evaluation, [&] {
        return recorded("evaluation", [&] { return task_.validation_loss(whole); });
      });
      if (!writes()) return;
      std::vector<std::pair<std::string, double>> values = {{"val_loss", validation_->loss}};
      if (validation_->accuracy) values.emplace_back("val_accuracy", *validation_->accuracy);
      records_->add(step_, values);
      records_->plot();
    });
  }

  // By rank 0, for which the others wait. False on it if a signal ended it.
  bool sample() {
    if (!samples_) return true;
    if (writes()) progress_.break_line();
    return with_averages(Phase::sampling, [&] {
      if (!writes()) return;
      std::string text = in_phase(Phase::sampling, [&] {
        return recorded("sample",
                        [&] { return about("train: after step " + std::to_string(step_), task_.sample); });
      });
      report("\n--- sample after step {} ---\n{}\n---\n\n", step_, for_output(text));
      records_->add_sample(step_, text);
    });
  }

  // On all ranks: runs `look`, which may run the model as it likes, with averages where there are any, off the clock; false if a signal
  // ended it.
  bool with_averages(Phase phase, const std::function<void()>& look) {
    progress_.pause();
    const auto weights = in_phase(phase, [&] { return distributed::EvaluatedWeights(parallel_, task_.ema); });
    bool done = true;
    try {
      look();
    } catch (const Interrupted&) { done = false; }
    distributed::gather_for_others(parallel_);
    progress_.resume();
    return done;
  }

  // On all ranks: each writes what it has of the optimizer's state, or gives it to rank 0, which alone writes all else.
  void save(bool last) {
    in_phase(Phase::saving, [&] { recorded("save", [&] { save_step(last); }); });
  }

  void save_step(bool last) {
    progress_.pause();
    const bool together = shared_.group != nullptr;
    const optim::Optimizer& optimizer = task_.optimizer;
    const distributed::SharedTensors shared(parallel_, task_.ema);
    Checkpoint checkpoint{
        .step = step_,
        .optimizer = optim::state_by_name(together ? optimizer.own_state_dict() : optimizer.state_dict(),
                                          task_.optimizer, task_.model.named_parameters())};
    check_same_state(group_, step_, task_.model, together ? whole_state(optimizer) : checkpoint.optimizer,
                     scaler_);
    if (together) {
      checkpoint.rank = group_.rank(), checkpoint.ranks = group_.size();
      checkpoint.origin = state_origin(task_.optimizer, parallel_, options_.accumulate);
    }
    if (writes()) add_whole(checkpoint);
    if (together)
      checkpoint.shared = &shared;
    else
      shared.read_on_rank_0([&](const distributed::WholeOf& whole) { make_whole(checkpoint, whole); });
    if (writes() || together) last ? saver_.save_last(checkpoint) : saver_.try_to_save(checkpoint);
    progress_.resume();
  }

  // What ranks do not share.
  void add_whole(Checkpoint& checkpoint) const {
    checkpoint.random = default_generator().state();
    checkpoint.model = task_.description;
    checkpoint.parameters = task_.model.state_dict();
    if (task_.ema) checkpoint.ema = task_.ema->state_dict();
    if (scaler_) checkpoint.loss_scale = scaler_->state_dict();
    checkpoint.bucket_order = bucket_order(parallel_);
  }

  // Of a rank 0 that saves alone.
  static void make_whole(Checkpoint& checkpoint, const distributed::WholeOf& whole) {
    for (nn::NamedTensors* tensors : {&checkpoint.parameters, &checkpoint.ema})
      for (auto& [name, x] : *tensors) x = whole(x);
  }

  // The run folder, and the ranks that save into it together.
  struct Shared {
    std::string path;
    distributed::ProcessGroup* group;  // null: rank 0 saves alone
  };
  Shared share_folder() {
    if (!is_shared(task_.optimizer)) return {options_.run_folder, nullptr};
    const SharedFolder folder = look_for_shared_folder(group_, options_.run_folder);
    if (folder.blind.empty()) return {folder.path, &group_};
    if (writes())
      warn(
          "warning: rank {} does not see {}, or cannot write there: to save, rank 0 takes in the optimizer's "
          "state of all ranks\n",
          folder.blind[0], options_.run_folder);
    return {options_.run_folder, nullptr};
  }

  std::function<void(const std::string&)> tell() {
    return [this](const std::string& text) {
      progress_.break_line();
      warn("warning: {}\n", text);
    };
  }

  Task& task_;
  const TrainerOptions& options_;
  distributed::ProcessGroup& group_;
  distributed::DataParallel& parallel_;
  optim::GradScaler* scaler_;  // null: the loss has no scale
  int64_t step_;
  const bool samples_;    // rank 0 has something to show
  bool checked_ = false;  // that the model knows all layers of the loss
  TensorList parameters_;
  Progress progress_;
  Shared shared_;
  Saver saver_;
  RankTimes times_;
  LateSteps steps_;
  std::optional<RunRecords> records_;  // of rank 0
  double lr_ = 0, loss_ = 0;           // of the newest step whose loss is known
  std::optional<Validation> validation_;
};

// One Error that lists all that differs.
void check_description(const Task& task, std::map<std::string, std::string> saved) {
  std::string differences;
  auto add = [&](const std::string& key, const std::string& was, const std::string& now) {
    if (was != now && !task.changeable.contains(key))
      differences += (differences.empty() ? "" : ", ") + key + " " + was + " (now " + now + ")";
  };
  for (const auto& [key, now] : task.description) {
    auto found = saved.extract(key);
    add(key, found.empty() ? "none" : found.mapped(), now);
  }
  for (const auto& [key, was] : saved) add(key, was, "none");
  check(differences.empty(), "resume: its model is not the one that the options describe: ", differences);
}

void check_same_step(distributed::ProcessGroup& group, int64_t first_step) {
  const std::vector<double> steps = of_all_ranks(group, {double(first_step)}, "first step");
  for (size_t rank = 1; rank < steps.size(); ++rank)
    check(steps[rank] == steps[0], "resume: rank 0 goes on after step ", int64_t(steps[0]), ", rank ", rank,
          " after step ", int64_t(steps[rank]), ": they do not see the same run folder");
}

// What this rank has of a state that ranks share: of no more is there room. Conversion takes all of it.
nn::NamedTensors own_state(Task& task, const TrainerOptions& options) {
  if (!is_shared(task.optimizer) || options.may_convert) return {};
  task.optimizer.allocate_state();
  return optim::state_by_name(task.optimizer.own_state_dict(), task.optimizer, task.model.named_parameters());
}

// What of a checkpoint is restored once all ranks have read it.
struct Restored {
  int64_t step = 0;
  nn::NamedTensors bucket_order{};
};

Restored restore(Task& task, optim::GradScaler* scaler, const TrainerOptions& options) {
  const std::string& run_folder = options.run_folder;
  Checkpoint checkpoint = load_checkpoint(run_folder, true, own_state(task, options));
  check(!scaler || !checkpoint.loss_scale.empty() || options.loss_scale_is_given, "resume: ", checkpoint.path,
        " has no loss scale, which f16 needs; say by --init-scale where it begins, such as ",
        options.loss_scale);
  about(checkpoint.path, [&] {
    check_description(task, checkpoint.model);
    if (options.may_convert) {
      const std::string converted = convert_precision(checkpoint, task.model, task.optimizer);
      if (!converted.empty()) report("Converted: {}\n", converted);
    }
    task.model.load_state_dict(checkpoint.parameters);
    task.optimizer.load_state_dict(
        optim::state_by_place(checkpoint.optimizer, task.optimizer, task.model.named_parameters()));
    if (scaler && !checkpoint.loss_scale.empty()) scaler->load_state_dict(checkpoint.loss_scale);
  });
  if (scaler && checkpoint.loss_scale.empty())
    report("Loss scale: {} has none; it begins at {}\n", checkpoint.path, scaler->read().scale);
  check(!task.ema == checkpoint.ema.empty(), "resume: ", run_folder, task.ema ? " has no" : " has",
        " averages of the weights; start it with the same --ema");
  if (task.ema) {
    task.ema->load_state_dict(checkpoint.ema);
    task.ema->set_updates(task.optimizer.steps());
  }
  default_generator().set_state(checkpoint.random);
  if (!checkpoint.origin.empty()) report("Optimizer state: in parts, of {}\n", in_words(checkpoint.origin));
  return {checkpoint.step, checkpoint.bucket_order};
}

}  // namespace

TrainingResult train(Task& task, const TrainerOptions& options, distributed::DataParallel& parallel) {
  invariant(&parallel.model() == &task.model, "train: the ranks have another model than the task");
  std::optional<optim::GradScaler> scaler;
  if (options.loss_scale > 0)
    scaler.emplace(
        task.model.parameters().at(0).device(),
        optim::GradScalerOptions{.init_scale = options.loss_scale, .interval = options.scale_interval});
  optim::GradScaler* const used = scaler ? &*scaler : nullptr;
  std::optional<distributed::WholeWeights> whole(
      parallel);  // on all ranks, whatever folder each of them sees
  const Restored restored =
      options.resume && has_checkpoint(options.run_folder) ? restore(task, used, options) : Restored();
  const int64_t first_step = restored.step;
  check_same_step(parallel.group(), first_step);
  if (first_step > 0)
    if (const std::string notice = restore_bucket_order(parallel, restored.bucket_order); !notice.empty())
      report("{}\n", notice);
  check_same_state(parallel.group(), first_step, task.model, whole_state(task.optimizer), used);
  whole.reset();
  check(first_step < options.schedule.steps, "train: the run is at step ", first_step,
        " already and --steps is ", options.schedule.steps, "; with more --steps it goes on");
  if (task.ema) task.ema->follow_masters(task.optimizer);
  check(options.resume || parallel.group().rank() > 0 || !has_checkpoint(options.run_folder),
        "train: the run in ", options.run_folder, " has a checkpoint: resume it, or name another folder");
  if (task.begin) task.begin(first_step);
  std::optional<MadeFolders> folder;  // programs have made theirs
  if (parallel.group().rank() == 0) folder.emplace(options.run_folder);
  return Trainer(task, options, parallel, used, first_step).run();
}

TrainingResult train(Task& task, const TrainerOptions& options) {
  auto alone = distributed::ProcessGroup::alone();
  distributed::DataParallel parallel(task.model, *alone);
  return train(task, options, parallel);
}

}  // namespace reprise::train
