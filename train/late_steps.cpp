#include "reprise/train/late_steps.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"

namespace reprise::train {

LateSteps::LateSteps(Task& task, const TrainerOptions& options, distributed::DataParallel& parallel,
                     optim::GradScaler* scaler, int64_t first_step)
    : task_(task), options_(options), parallel_(parallel), scaler_(scaler) {
  const nn::NamedTensors named = task.model.named_parameters();
  for (const optim::ParameterGroup* group : task.optimizer.all_groups())
    for (const Tensor& parameter : group->parameters) {
      const auto own = std::find_if(named.begin(), named.end(),
                                    [&](const auto& entry) { return entry.second.is_same(parameter); });
      parameters_.emplace_back(own == named.end() ? "a parameter of no name" : own->first, parameter);
    }
  if (scaler) {
    const optim::GradScaler::Stats stats = scaler->read();
    scale_ = stats.scale;
    updates_at_0_ = task.optimizer.steps() - first_step + stats.skipped;
    found_ = scaler->found();
  } else {
    found_ = Tensor::zeros({}, DType::i32, device());
  }
}

void LateSteps::begin() {
  losses_.clear(), total_ = {};
  if (!scaler_) return;
  NoGrad guard;
  buffers_ = task_.model.named_buffers();
  for (auto& [name, buffer] : buffers_) buffer = buffer.clone();
}

void LateSteps::backward(const Tensor& loss, int64_t g) {
  Tensor factor;
  {
    NoGrad guard;
    const Tensor value = loss.detach();
    losses_.push_back(value.to(DType::f64));
    // 1, or NaN: the gradient of a loss that is not finite might be finite.
    if (scaler_) factor = value * 0.0 + 1.0;
  }
  parallel_.backward(scaler_ ? scaler_->scale(loss * factor) : loss, g);
}

// In the order of the micro-batches, of which each rank has as many, the first rank the first.
void LateSteps::add_losses() {
  NoGrad guard;
  distributed::ProcessGroup& group = parallel_.group();
  if (group.size() > 1) {
    const Tensor own = stack(losses_, 0),
                 all = Tensor::empty({own.numel() * group.size()}, DType::f64, device());
    group.all_gather(all, own, "losses").wait();
    losses_.clear();
    for (int64_t g = 0; g < all.numel(); ++g) losses_.push_back(all.slice(0, g, g + 1).reshape({}));
  }
  total_ = Tensor::zeros({}, DType::f64, device());
  for (const Tensor& loss : losses_) total_ = total_ + loss;
}

void LateSteps::step() {
  add_losses();
  current_ = idle_.empty() ? std::make_unique<Pending>(scaler_, device()) : std::move(idle_.front());
  if (!idle_.empty()) idle_.pop_front();
  current_->names = names_with_gradient();
  current_->losses = std::move(losses_);
  scaler_ ? step_scaled() : step_unscaled();
}

void LateSteps::step_scaled() {
  scaler_->step(task_.optimizer, {.clip = options_.clip});
  scaler_->update();
  current_->stats->start();
  const TensorView numbers[] = {total_, found_};
  current_->numbers.start(numbers);
  put_back_buffers();
  if (task_.ema) task_.ema->update_if_finite(found_);
  if (task_.updated && current_->numbers.finish()[1] == 0) task_.updated();
}

void LateSteps::step_unscaled() {
  NoGrad guard;
  const Tensor found = Tensor::empty({}, DType::i32, device()),
               norm = Tensor::empty({}, DType::f64, device()),
               gradient_scale = Tensor::empty({}, DType::f64, device());
  task_.optimizer.check_gradients(
      {.clip = options_.clip, .found = found, .norm = norm, .gradient_scale = gradient_scale});
  const Tensor bad_loss = not_equal(total_ * 0.0, Tensor::zeros({}, DType::f64, device())).to(DType::i32);
  found_ = maximum(found_, maximum(found, bad_loss));
  const TensorView numbers[] = {total_, found_, norm};
  current_->numbers.start(numbers);
  if (device()
          .is_cpu()) {  // all is there: nothing is waited for, and no counts of updates lie beside the state
    if (found_.item() != 0) return;
    task_.optimizer.step(gradient_scale.item());
  } else {
    task_.optimizer.step_if_finite(gradient_scale, found_);
  }
  if (task_.ema) task_.ema->update_while_finite(found_);
  if (task_.updated) task_.updated();
}

// Running statistics, which forward passes have changed, are again what they were if the step is not made.
void LateSteps::put_back_buffers() {
  if (buffers_.empty()) return;
  NoGrad guard;
  const Tensor skipped = not_equal(found_, Tensor::zeros({}, DType::i32, device()));
  const nn::NamedTensors now = task_.model.named_buffers();
  for (size_t i = 0; i < now.size(); ++i)
    now[i].second.copy_(where(skipped, buffers_[i].second, now[i].second));
  buffers_.clear();
}

std::vector<std::string> LateSteps::names_with_gradient() const {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : parameters_)
    if (parameter.grad().defined()) names.push_back(name);
  return names;
}

void LateSteps::end(int64_t step, RunRecords::Values values) {
  current_->step = step;
  current_->values = std::move(values);
  pending_.push_back(std::move(current_));
}

void LateSteps::settle(size_t most, const Take& take) {
  while (!pending_.empty()) {
    Pending& eldest = *pending_.front();
    if (pending_.size() <= most && !eldest.is_done()) return;
    Done done = finish(eldest);
    eldest.losses.clear();
    idle_.push_back(std::move(pending_.front()));
    pending_.pop_front();
    take(std::move(done));
  }
}

LateSteps::Done LateSteps::finish(Pending& pending) {
  const std::vector<double> numbers = pending.numbers.finish();
  const size_t found = size_t(numbers[1]);
  Done done{.step = pending.step, .loss = numbers[0] / double(options_.accumulate), .values = {}};
  if (!scaler_ && found != 0) refuse(pending, found);
  if (std::isfinite(done.loss)) done.values.emplace_back("loss", done.loss);
  if (!scaler_) done.values.emplace_back("grad_norm", numbers[2]);
  done.values.insert(done.values.end(), pending.values.begin(), pending.values.end());
  if (scaler_) finish_scaled(pending, found, done);
  return done;
}

void LateSteps::finish_scaled(Pending& pending, size_t found, Done& done) {
  optim::GradScaler::Stats stats;
  try {
    stats = pending.stats->finish();
  } catch (const Error& error) {
    fail("train: step ", pending.step - 1, ": ", error.what(), "; first bad tensor: ",
         found > 0 && found <= pending.names.size() ? "the gradient of " + pending.names[found - 1] : "none");
  }
  if (found == 0) done.values.emplace_back("grad_norm", stats.norm);
  done.values.emplace_back("loss_scale", stats.scale);
  done.values.emplace_back("skipped", double(stats.skipped));
  done.values.emplace_back("updates", double(updates_at_0_ + pending.step - stats.skipped));
  if (found != 0)
    done.notice = fmt::format("step {}: gradients are not finite at scale {}; skipped, scale {}",
                              pending.step, scale_, stats.scale);
  scale_ = stats.scale;
}

void LateSteps::refuse(const Pending& pending, size_t found) const {
  const std::string loss = bad_loss(pending);
  fail("train: the ", loss.empty() ? "gradient is not finite" : "loss is " + loss, " at step ",
       pending.step - 1, "; first bad tensor: ", bad_tensor(pending, loss.empty() ? found : 0));
}

// The first loss that is not finite, and where it is from.
std::string LateSteps::bad_loss(const Pending& pending) const {
  const int ranks = parallel_.group().size();
  for (size_t g = 0; g < pending.losses.size(); ++g) {
    const double loss = pending.losses[g].item();
    if (std::isfinite(loss)) continue;
    std::string text = fmt::format("{}", loss);
    if (pending.losses.size() > 1) text += fmt::format(" in micro-batch {}", g);
    if (ranks > 1) text += fmt::format(" of rank {}", g / (pending.losses.size() / size_t(ranks)));
    return text;
  }
  return "";
}

// The first weight that is not finite, or else the gradient that was `found`.
std::string LateSteps::bad_tensor(const Pending& pending, size_t found) const {
  NoGrad guard;
  for (const auto& [name, parameter] : task_.model.named_parameters())
    if (!parameter.is_hollow() && !std::isfinite((parameter * 0.0).sum().item())) return name;
  if (found > 0 && found <= pending.names.size()) return "the gradient of " + pending.names[found - 1];
  return "none among the weights (run with --anomaly to name the operation)";
}

}  // namespace reprise::train
