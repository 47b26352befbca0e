#include "reprise/train/precision/scaled_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/train/ranks/agreement.h"

namespace reprise::train {

ScaledSteps::ScaledSteps(Task& task, const TrainerOptions& options, distributed::DataParallel& parallel,
                         optim::GradScaler& scaler, int64_t first_step)
    : task_(task), options_(options), parallel_(parallel), scaler_(scaler) {
  const optim::GradScaler::Stats stats = scaler.read();
  scale_ = stats.scale;
  updates_at_0_ = task.optimizer.steps() - first_step + stats.skipped;
  const nn::NamedTensors named = task.model.named_parameters();
  for (const optim::ParameterGroup* group : task.optimizer.all_groups())
    for (const Tensor& parameter : group->parameters) {
      const auto own = std::find_if(named.begin(), named.end(),
                                    [&](const auto& entry) { return entry.second.is_same(parameter); });
      parameters_.emplace_back(own == named.end() ? "a parameter of no name" : own->first, parameter);
    }
}

void ScaledSteps::begin() {
  NoGrad guard;
  losses_.clear();
  buffers_ = task_.model.named_buffers();
  for (auto& [name, buffer] : buffers_) buffer = buffer.clone();
}

void ScaledSteps::backward(const Tensor& loss, int64_t g) {
  Tensor factor;
  {
    NoGrad guard;
    const Tensor value = loss.detach();
    losses_.push_back(value.to(DType::f64));
    factor = value * 0.0 + 1.0;  // 1, or NaN: the gradient of a loss that is not finite might be finite
  }
  parallel_.backward(scaler_.scale(loss * factor), g);
}

// In the order of the micro-batches.
void ScaledSteps::add_losses() {
  NoGrad guard;
  total_ = Tensor::zeros({}, DType::f64, parameters_.at(0).second.device());
  if (parallel_.group().size() == 1) {
    for (const Tensor& loss : losses_) total_ = total_ + loss;
    return;
  }
  std::vector<double> mine;
  for (const Tensor& loss : losses_) mine.push_back(loss.item());
  for (double loss : of_all_ranks(parallel_.group(), mine, "losses")) total_ = total_ + loss;
}

void ScaledSteps::step() {
  add_losses();
  current_ = idle_.empty() ? std::make_unique<Pending>(scaler_, total_.device()) : std::move(idle_.front());
  if (!idle_.empty()) idle_.pop_front();
  current_->names = names_with_gradient();
  scaler_.step(task_.optimizer, {.clip = options_.clip});
  scaler_.update();
  current_->stats.start();
  const TensorView numbers[] = {total_, scaler_.found()};
  current_->loss.start(numbers);
  put_back_buffers();
  if (task_.ema) task_.ema->update_if_finite(scaler_.found());
  if (task_.updated && current_->loss.finish()[1] == 0) task_.updated();
}

// Running statistics, which forward passes have changed, are again what they were if the step is not made.
void ScaledSteps::put_back_buffers() {
  if (buffers_.empty()) return;
  NoGrad guard;
  const Tensor skipped = not_equal(scaler_.found(), Tensor::zeros({}, DType::i32, scaler_.found().device()));
  const nn::NamedTensors now = task_.model.named_buffers();
  for (size_t i = 0; i < now.size(); ++i)
    now[i].second.copy_(where(skipped, buffers_[i].second, now[i].second));
  buffers_.clear();
}

std::vector<std::string> ScaledSteps::names_with_gradient() const {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters_)
    if (parameter.grad().defined()) names.push_back(name);
  return names;
}

void ScaledSteps::end(int64_t step, RunRecords::Values values) {
  current_->step = step;
  current_->values = std::move(values);
  pending_.push_back(std::move(current_));
}

void ScaledSteps::settle(size_t most, const Take& take) {
  while (!pending_.empty()) {
    Pending& eldest = *pending_.front();
    if (pending_.size() <= most && !(eldest.stats.is_done() && eldest.loss.is_done())) return;
    Done done = finish(eldest);
    idle_.push_back(std::move(pending_.front()));
    pending_.pop_front();
    take(std::move(done));
  }
}

ScaledSteps::Done ScaledSteps::finish(Pending& pending) {
  const std::vector<double> numbers = pending.loss.finish();
  const size_t found = size_t(numbers[1]);
  optim::GradScaler::Stats stats;
  try {
    stats = pending.stats.finish();
  } catch (const Error& error) {
    fail("train: step ", pending.step - 1, ": ", error.what(), "; first bad tensor: ",
         found > 0 && found <= pending.names.size() ? "the gradient of " + pending.names[found - 1] : "none");
  }
  Done done{.step = pending.step,
            .loss = numbers[0] / double(options_.accumulate),
            .values = std::move(pending.values)};
  if (std::isfinite(done.loss)) done.values.emplace_back("loss", done.loss);
  if (found == 0) done.values.emplace_back("grad_norm", stats.norm);
  done.values.emplace_back("loss_scale", stats.scale);
  done.values.emplace_back("skipped", double(stats.skipped));
  done.values.emplace_back("updates", double(updates_at_0_ + pending.step - stats.skipped));
  if (found != 0)
    done.notice = fmt::format("step {}: gradients are not finite at scale {}; skipped, scale {}",
                              pending.step, scale_, stats.scale);
  scale_ = stats.scale;
  return done;
}

}  // namespace reprise::train
