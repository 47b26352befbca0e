// The training loop.
#include "reprise/train/trainer.h"

#include <cmath>
#include <optional>
#include <utility>

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/core/memory.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/registration.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/interrupt.h"
#include "reprise/train/option_error.h"
#include "reprise/train/output.h"
#include "reprise/train/progress.h"
#include "reprise/train/run_records.h"
#include "reprise/train/saver.h"

namespace reprise::train {
namespace {

class Trainer {
 public:
  Trainer(Task& task, const TrainerOptions& options, optim::GradScaler* scaler, int64_t first_step)
      : task_(task),
        options_(options),
        scaler_(scaler),
        step_(first_step),
        parameters_(task.model.parameters()),
        progress_(first_step, options.schedule.steps, task.unit, parameters_.at(0).device()),
        saver_({options.run_folder, options.keep, options.retry_seconds}, first_step > 0 ? first_step : -1,
               tell()),
        records_(options.run_folder, first_step, options.resume, tell()) {}

  TrainingResult run() {
    InterruptScope interrupts;
    int64_t first = step_, end = options_.schedule.steps;
    if (options_.stop_after > 0) end = std::min(end, step_ + options_.stop_after);
    if (step_ > 0 && due(options_.eval_every) && !records_.has(step_, "val_loss"))
      validate(false);  // cut short
    while (step_ < end && !interrupted()) {
      double loss = update();
      if (std::string notice = task_.notice ? task_.notice() : ""; !notice.empty()) tell()(notice);
      bool last = step_ == options_.schedule.steps;
      if (due(options_.eval_every) && !last) validate(false);
      progress_.update(step_, loss, validation_, lr_, task_.units_per_step, due(options_.eval_every) || last);
      if ((due(options_.save_every) || saver_.wants_another_try(step_)) && !last) save(false);
      if (due(options_.sample_every) && !last) sample();
    }
    if (step_ > first && saver_.saved_step() != step_) save(true);
    bool complete = step_ == options_.schedule.steps && validate(true);
    progress_.break_line();
    complete = complete && sample();
    records_.plot();
    records_.close();
    TrainingResult result{.step = step_, .updates = step_ - first, .interrupted = !complete && interrupted()};
    if (validation_)
      result.validation_loss = validation_->loss, result.validation_accuracy = validation_->accuracy;
    return result;
  }

 private:
  bool due(int64_t every) const { return every > 0 && step_ % every == 0; }

  // One update of the parameters; the mean loss of its micro-batches.
  double update() {
    Allocator& memory = allocator(parameters_.at(0).device());
    memory.reset_peaks();
    recompute::Accounting accounting;
    const nn::NamedTensors buffers = scaler_ ? copies_of_buffers() : nn::NamedTensors();
    double total = 0;
    for (int64_t micro = 0; micro < options_.accumulate; ++micro) {
      AnomalyMode anomaly(options_.anomaly);
      Tensor loss = task_.loss(step_, micro);
      double value = loss.item();
      if (!std::exchange(checked_, true)) nn::check_registered(task_.model, loss);
      check(scaler_ || std::isfinite(value), "train: the loss is ", value, " at step ", step_,
            "; first bad tensor: ", first_bad_tensor());
      total += value;
      if (options_.accumulate > 1) loss = loss / double(options_.accumulate);
      if (!std::isfinite(value)) loss = loss * NAN;  // its gradient alone might be finite
      (scaler_ ? scaler_->scale(loss) : loss).backward();
    }
    lr_ = options_.schedule(step_);
    task_.optimizer.set_lr(lr_);
    if (options_.weight_decay) task_.optimizer.set_weight_decay((*options_.weight_decay)(step_));
    const auto [norm, is_made, stats] = scaler_ ? step_with_scale(buffers) : step();
    task_.optimizer.zero_grad();
    if (is_made && task_.ema) task_.ema->update();
    if (is_made && task_.updated) task_.updated();
    ++step_;
    double loss = total / double(options_.accumulate);
    std::vector<std::pair<std::string, double>> values;
    if (std::isfinite(loss)) values.emplace_back("loss", loss);
    values.emplace_back("lr", lr_);
    if (is_made) values.emplace_back("grad_norm", norm);
    values.emplace_back("units_per_second", progress_.units_per_second());
    values.emplace_back("peak_bytes", double(memory.stats().peak_allocated));
    if (scaler_) {
      values.emplace_back("loss_scale", stats.scale);
      values.emplace_back("skipped_updates", double(stats.skipped));
    }
    if (recompute::RegionStats replayed = accounting.total(); replayed.replays > 0) {
      values.emplace_back("recompute_seconds", replayed.replay_seconds);
      values.emplace_back("recomputed_bytes", double(replayed.bytes_recomputed));
    }
    if (task_.step_values)
      for (auto& value : task_.step_values()) values.push_back(std::move(value));
    records_.add(step_, values);
    return loss;
  }

  struct Step {
    double norm;   ///< of the gradients
    bool is_made;  ///< false: they were not finite
    optim::GradScaler::Stats stats{};
  };

  Step step() {
    const double norm = optim::grad_norm(parameters_);
    check(std::isfinite(norm), "train: the gradient is not finite at step ", step_,
          "; first bad tensor: ", first_bad_tensor());
    task_.optimizer.step(options_.clip > 0 ? optim::clip_scale(norm, options_.clip) : 1);
    return {norm, true};
  }

  // Running statistics, which forward passes have changed, are again what they were if the step is not made.
  Step step_with_scale(const nn::NamedTensors& buffers) {
    scaler_->step(task_.optimizer, {.clip = options_.clip});
    scaler_->update();
    optim::GradScaler::Stats stats;
    try {
      stats = scaler_->read();
    } catch (const Error& error) {
      fail("train: step ", step_, ": ", error.what(), "; first bad tensor: ", first_bad_tensor());
    }
    if (stats.found == 0) return {stats.norm, true, stats};
    NoGrad guard;
    const nn::NamedTensors now = task_.model.named_buffers();
    for (size_t i = 0; i < now.size(); ++i) now[i].second.copy_(buffers[i].second);
    return {stats.norm, false, stats};
  }

  nn::NamedTensors copies_of_buffers() const {
    NoGrad guard;
    nn::NamedTensors copies = task_.model.named_buffers();
    for (auto& [name, buffer] : copies) buffer = buffer.clone();
    return copies;
  }

  std::string first_bad_tensor() const {
    NoGrad guard;
    auto bad = [](const Tensor& x) { return x.defined() && !std::isfinite((x * 0.0).sum().item()); };
    for (auto& [name, parameter] : task_.model.named_parameters()) {
      if (bad(parameter)) return name;
      if (bad(parameter.grad())) return "the gradient of " + name;
    }
    return "none among weights and gradients (run with --anomaly to name the operation)";
  }

  // False if a signal ended it.
  bool validate(bool whole) {
    return with_averages([&] {
      validation_ = task_.validation_loss(whole);
      std::vector<std::pair<std::string, double>> values = {{"val_loss", validation_->loss}};
      if (validation_->accuracy) values.emplace_back("val_accuracy", *validation_->accuracy);
      records_.add(step_, values);
      records_.plot();
    });
  }

  // False if a signal ended it.
  bool sample() {
    if (!task_.sample) return true;
    progress_.break_line();
    return with_averages([&] {
      std::string text = about("train: after step " + std::to_string(step_), task_.sample);
      report("\n--- sample after step {} ---\n{}\n---\n\n", step_, for_output(text));
      records_.add_sample(step_, text);
    });
  }

  // Runs `look` at the averaged weights, where there are any, off the clock; false if a signal ended it.
  bool with_averages(const std::function<void()>& look) {
    progress_.pause();
    std::optional<optim::Ema::Scope> averages;
    if (task_.ema) averages.emplace(*task_.ema);
    bool done = true;
    try {
      look();
    } catch (const Interrupted&) { done = false; }
    progress_.resume();
    return done;
  }

  void save(bool last) {
    progress_.pause();
    Checkpoint checkpoint{.step = step_,
                          .random = default_generator().state(),
                          .model = task_.description,
                          .parameters = task_.model.state_dict(),
                          .optimizer = task_.optimizer.state_dict()};
    if (task_.ema) checkpoint.ema = task_.ema->state_dict();
    if (scaler_) checkpoint.loss_scale = scaler_->state_dict();
    last ? saver_.save_last(checkpoint) : saver_.try_to_save(checkpoint);
    progress_.resume();
  }

  std::function<void(const std::string&)> tell() {
    return [this](const std::string& text) {
      progress_.break_line();
      warn("warning: {}\n", text);
    };
  }

  Task& task_;
  const TrainerOptions& options_;
  optim::GradScaler* scaler_;  // null: the loss has no scale
  int64_t step_;
  bool checked_ = false;  // that the model knows all layers of the loss
  TensorList parameters_;
  Progress progress_;
  Saver saver_;
  RunRecords records_;
  double lr_ = 0;
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

int64_t restore(Task& task, optim::GradScaler* scaler, const std::string& run_folder) {
  Checkpoint checkpoint = load_checkpoint(run_folder, true);
  about(checkpoint.path, [&] {
    check_description(task, checkpoint.model);
    task.model.load_state_dict(checkpoint.parameters);
    task.optimizer.load_state_dict(checkpoint.optimizer);
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
  return checkpoint.step;
}

}  // namespace

TrainingResult train(Task& task, const TrainerOptions& options) {
  std::optional<optim::GradScaler> scaler;
  if (options.loss_scale > 0)
    scaler.emplace(task.model.parameters().at(0).device(),
                   optim::GradScalerOptions{.init_scale = options.loss_scale});
  optim::GradScaler* const used = scaler ? &*scaler : nullptr;
  int64_t first_step =
      options.resume && has_checkpoint(options.run_folder) ? restore(task, used, options.run_folder) : 0;
  check(first_step < options.schedule.steps, "train: the run is at step ", first_step,
        " already and --steps is ", options.schedule.steps, "; with more --steps it goes on");
  if (task.begin) task.begin(first_step);
  return Trainer(task, options, used, first_step).run();
}

}  // namespace reprise::train
