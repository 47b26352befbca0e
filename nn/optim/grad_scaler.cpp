// The scale, and what each optimizer of an update has done.
#include "reprise/nn/optim/grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/tensor_set.h"
#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/kernels/optimizer/loss_scale.h"

namespace reprise::optim {
namespace {

bool is_power_of_two(double x) {
  int exponent = 0;
  return std::isfinite(x) && x > 0 && std::frexp(x, &exponent) == 0.5;
}

void check_power(const char* name, double value) {
  check(is_power_of_two(value) && value >= 0x1p-126 && value <= 0x1p126, "GradScaler: ", name,
        " must be a power of two that f32 holds, so that it rounds nothing; got ", value);
}

const GradScalerOptions& checked(const GradScalerOptions& options) {
  check_power("init_scale", options.init_scale);
  check_power("growth", options.growth);
  check_power("backoff", options.backoff);
  check(options.growth > 1, "GradScaler: growth must be above 1, got ", options.growth);
  check(options.backoff < 1, "GradScaler: backoff must be below 1, got ", options.backoff);
  check(options.interval >= 1 && options.interval <= 1 << 30, "GradScaler: interval must be 1 to 2^30, got ",
        options.interval);
  check(options.hysteresis >= 1 && options.hysteresis <= 1 << 30,
        "GradScaler: hysteresis must be 1 to 2^30, got ", options.hysteresis);
  check(options.min_scale > 0 && options.min_scale <= options.init_scale,
        "GradScaler: min_scale must be above 0 and at most init_scale, ", options.init_scale, "; got ",
        options.min_scale);
  check(options.max_skips >= 1, "GradScaler: max_skips must be at least 1, got ", options.max_skips);
  return options;
}

TensorList parameters_of(Optimizer& optimizer) {
  TensorList all;
  for (const ParameterGroup* group : optimizer.all_groups())
    all.insert(all.end(), group->parameters.begin(), group->parameters.end());
  return all;
}

// For messages: optimizers have no names.
std::string described(const TensorList& parameters) {
  std::string text = reprise::detail::join("an optimizer of ", parameters.size(), " parameters");
  if (!parameters.empty())
    text += reprise::detail::join(", the first ", parameters[0].dtype(), parameters[0].shape());
  return text;
}

}  // namespace

GradScaler::GradScaler(Device device, const GradScalerOptions& options) : options_(checked(options)) {
  scale_ = scalar(options.init_scale, DType::f32, device);
  good_ = Tensor::zeros({}, DType::i32, device);
  hysteresis_ = scalar(double(options.hysteresis), DType::i32, device);
  skipped_ = Tensor::zeros({}, DType::i64, device);
  in_a_row_ = Tensor::zeros({}, DType::i32, device);
  norm_ = Tensor::zeros({}, DType::f64, device);
  found_ = Tensor::zeros({}, DType::i32, device);
  newest_.scale = options.init_scale;
}

Tensor GradScaler::scale(const Tensor& loss) {
  check(loss.defined() && (loss.dtype() == DType::f32 || loss.dtype() == DType::f64),
        "GradScaler: scale needs a loss in f32 or f64");
  check(loss.device() == scale_.device(), "GradScaler: the loss is on ", loss.device(), ", the scale on ",
        scale_.device());
  check(entries_.empty(), "GradScaler: scale after step or unscale; the losses of an update come first");
  is_scaled_ = true;
  told_.begin();
  // A copy: backward keeps it, and update writes to the scale itself.
  return loss * (loss.dtype() == DType::f64 ? scale_.to(DType::f64) : scale_.clone());
}

// Of an optimizer's gradients, multiplied by `scale` or by nothing: what a step is to multiply them by.
Tensor GradScaler::check_gradients(Optimizer& optimizer, const Tensor& scale, double clip, Tensor& found) {
  found = Tensor::empty({}, DType::i32, scale_.device());
  norm_.storage()->bump_version();
  Tensor gradient_scale = Tensor::empty({}, DType::f64, scale_.device());
  kernels::GradientCheck check{{}, clip, found, norm_, gradient_scale};
  if (scale.defined()) check.scale = scale;
  optimizer.check_gradients(check);
  return gradient_scale;
}

void GradScaler::unscale(Optimizer& optimizer) {
  check(is_scaled_, "GradScaler: unscale without scale: the gradients are those of a loss as it is");
  const auto it = entries_.find(&optimizer);
  if (it != entries_.end())
    fail("GradScaler: unscale after ", it->second.stage == Stage::stepped ? "step" : "unscale",
         " of the same optimizer, ", described(it->second.parameters));
  const TensorList parameters = parameters_of(optimizer);
  check_disjoint(optimizer, parameters);
  for (size_t i = 0; i < parameters.size(); ++i)
    if (const Tensor gradient = parameters[i].grad(); gradient.defined())
      check(size_of(gradient.dtype()) > 2, "GradScaler: unscale: the gradient of parameter ", i, " is ",
            gradient.dtype(), ", in which small numbers would be lost; step divides by the scale in f32");
  NoGrad guard;
  Entry entry{Stage::unscaled, {}};
  const Tensor inverse = check_gradients(optimizer, scale_, 0, entry.found);
  std::vector<std::pair<Tensor, Tensor>> quotients;  // all that may run out of memory comes first
  for (const Tensor& parameter : parameters)
    if (const Tensor gradient = parameter.grad(); gradient.defined())
      quotients.emplace_back(parameter, gradient * inverse.to(gradient.dtype()));
  entry.parameters = parameters;
  entries_.emplace(&optimizer, std::move(entry));
  for (const auto& [parameter, quotient] : quotients) parameter.set_grad(quotient);
  told_.add_unscaled(parameters);
}

void GradScaler::step(Optimizer& optimizer, const StepOptions& options) {
  check(is_scaled_, "GradScaler: step without scale: take the optimizer's own step, or scale the loss");
  check(options.clip >= 0 && std::isfinite(options.clip), "GradScaler: clip must be at least 0, got ",
        options.clip);
  const auto before = entries_.find(&optimizer);
  const bool unscaled = before != entries_.end();
  if (unscaled && before->second.stage == Stage::stepped)
    fail("GradScaler: step after step of the same optimizer, ", described(before->second.parameters),
         "; update comes first");
  const TensorList parameters = parameters_of(optimizer);
  check_disjoint(optimizer, parameters);
  NoGrad guard;
  Tensor found;
  const Tensor gradient_scale = check_gradients(optimizer, unscaled ? Tensor() : scale_, options.clip, found);
  // What unscale found stays, whatever was done since.
  if (unscaled) found = maximum(found, before->second.found);
  with_gradient_ =
      entries_.size() > size_t(unscaled) ? std::vector<std::string>() : names_with_gradient(parameters);
  optimizer.step_if_finite(gradient_scale, found);
  entries_[&optimizer] = {Stage::stepped, found, parameters};
}

std::vector<std::string> GradScaler::names_with_gradient(const TensorList& parameters) const {
  std::vector<std::string> names;
  if (named_.empty()) return names;
  for (const Tensor& parameter : parameters) {
    if (!parameter.grad().defined()) continue;
    const auto own = std::find_if(named_.begin(), named_.end(),
                                  [&](const auto& entry) { return entry.second.is_same(parameter); });
    names.push_back(own == named_.end() ? "a parameter of no name" : own->first);
  }
  return names;
}

void GradScaler::check_disjoint(const Optimizer& optimizer, const TensorList& parameters) const {
  TensorSet own;
  for (const Tensor& parameter : parameters) own.insert(parameter);
  for (const auto& [other, entry] : entries_) {
    if (other == &optimizer) continue;
    for (size_t i = 0; i < entry.parameters.size(); ++i)
      if (!own.insert(entry.parameters[i]))
        fail("GradScaler: a parameter of shape ", entry.parameters[i].shape(),
             " is in two optimizers of one update: ", described(entry.parameters), ", and ",
             described(parameters));
  }
}

void GradScaler::update() {
  check(!entries_.empty(), "GradScaler: update without step");
  Tensor any;
  NoGrad guard;
  for (const auto& [optimizer, entry] : entries_) {
    if (entry.stage != Stage::stepped)
      fail("GradScaler: update before the step of an optimizer that has unscaled: ",
           described(entry.parameters));
    any = any.defined() ? maximum(any, entry.found) : entry.found;
  }
  kernels::update_loss_scale(current_stream(scale_.device()), any,
                             {scale_, good_, hysteresis_, skipped_, in_a_row_},
                             {float(options_.growth), float(options_.backoff), int32_t(options_.interval),
                              int32_t(options_.hysteresis)});
  for (const auto& [name, tensor] : state()) tensor.storage()->bump_version();
  found_.copy_(any);  // where it was, for graphs that write it anew
  entries_.clear();
  is_scaled_ = false;
  told_.end();
}

std::vector<TensorView> GradScaler::numbers() const {
  return {scale_, good_, skipped_, in_a_row_, norm_, found_};
}

GradScaler::Stats GradScaler::usable(const Stats& stats) const {
  check(stats.in_a_row == 0 || (stats.scale >= options_.min_scale && stats.in_a_row < options_.max_skips),
        "GradScaler: ", stats.in_a_row, " updates in a row had gradients that are not finite; the scale is ",
        stats.scale, " (min_scale ", options_.min_scale, ", max_skips ", options_.max_skips,
        "); the first bad gradient is ",
        stats.found > 0 && size_t(stats.found) <= with_gradient_.size()
            ? "that of " + with_gradient_[size_t(stats.found) - 1]
            : reprise::detail::join("number ", stats.found, " of its optimizer's"),
        "; anomaly mode names the operation, and bf16 has the range of f32");
  return stats;
}

GradScaler::Stats GradScaler::read() const {
  Reading reading(*this);
  reading.start();
  return reading.finish();
}

GradScaler::Stats GradScaler::stats() {
  try {
    if (reading_) {
      if (!reading_->is_done()) return newest_;
      newest_ = reading_->finish();
    } else {
      reading_ = std::make_unique<Reading>(*this);
    }
    reading_->start();
    if (reading_->is_done()) newest_ = reading_->finish();
  } catch (...) {
    reading_.reset();  // the next call asks anew: a state may have been loaded
    throw;
  }
  return newest_;
}

GradScaler::Reading::Reading(const GradScaler& scaler)
    : scaler_(scaler), numbers_(scaler.scale_.device(), scaler.numbers().size()) {}

void GradScaler::Reading::start() { numbers_.start(scaler_.numbers()); }

bool GradScaler::Reading::is_done() const { return numbers_.is_done(); }

GradScaler::Stats GradScaler::Reading::finish() {
  const std::vector<double> n = numbers_.finish();
  return scaler_.usable({n[0], int64_t(n[1]), int64_t(n[2]), int64_t(n[3]), n[4], int64_t(n[5])});
}

nn::NamedTensors GradScaler::state() const {
  return {{"scale", scale_},
          {"good", good_},
          {"hysteresis", hysteresis_},
          {"skipped", skipped_},
          {"in_a_row", in_a_row_}};
}

nn::NamedTensors GradScaler::state_dict() const {
  nn::NamedTensors copies = state();
  for (auto& [name, tensor] : copies) tensor = tensor.clone();
  return copies;
}

void GradScaler::load_state_dict(const nn::NamedTensors& given) {
  const nn::NamedTensors own = state();
  check(!is_scaled_, "GradScaler: load_state_dict after scale: the losses of this update have another scale");
  check(given.size() == own.size(), "GradScaler: the state holds ", given.size(), " tensors, should hold ",
        own.size());
  std::map<std::string, Tensor> by_name(given.begin(), given.end());
  for (const auto& [name, tensor] : own) {
    const auto it = by_name.find(name);
    check(it != by_name.end() && it->second.defined() && it->second.numel() == 1 &&
              it->second.dtype() == tensor.dtype(),
          "GradScaler: the state has no \"", name, "\", one ", tensor.dtype());
  }
  check_power("the state's scale", by_name["scale"].item());
  NoGrad guard;
  for (const auto& [name, tensor] : own) tensor.copy_(by_name[name].reshape({}));
}

}  // namespace reprise::optim
