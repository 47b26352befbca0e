// SGD: parameters that meet their first gradient, and the others, in one launch each.
#include "reprise/nn/optim/sgd.h"

#include <cmath>

#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/optim/state_numbers.h"

namespace reprise::optim {

Sgd::Sgd(TensorList parameters, const SgdOptions& options)
    : Sgd(Checked(), std::vector<ParameterGroup>{{std::move(parameters), options.lr, options.weight_decay}},
          options) {}

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Sgd(Checked(), checked("Sgd", std::move(groups), options.lr, options.weight_decay), options) {}

Sgd::Sgd(Checked, std::vector<ParameterGroup> groups, const SgdOptions& options)
    : GroupOptimizer(std::move(groups)), options_(options), masters_(parameter_count(), options.master) {
  if (options.momentum > 0) add_state({"velocity", &velocity_});
  add_state("Sgd", masters_);
  check(options.momentum >= 0 && std::isfinite(options.momentum),
        "Sgd: momentum must be a finite number of at least 0, got ", options.momentum);
  check(!options.nesterov || options.momentum > 0, "Sgd: nesterov needs a momentum above 0, got ",
        options.momentum);
}

// Whether it had none.
bool Sgd::make_velocity(const Tensor& parameter, size_t place) {
  if (options_.momentum == 0 || velocity_[place].defined()) return false;
  velocity_[place] =
      Tensor::zeros(owned_part(parameter, place).shape(), state_dtype(parameter), parameter.device());
  return true;
}

void Sgd::allocate_state() {
  MemoryScope scope(MemoryCategory::optimizer);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    make_velocity(parameter, place);
    const Tensor part = owned_part(parameter, place);
    masters_.make_remainder(part, place);
    masters_.keep(part, place, masters_.copy_of(part, place));
  });
}

std::vector<WideParameter> Sgd::wide_parameters() {
  std::vector<WideParameter> all;
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    const Tensor part = owned_part(parameter, place);
    all.push_back(
        {masters_.copy_of(part, place), masters_.is_split(part) ? masters_.remainders[place] : Tensor()});
  });
  return all;
}

void Sgd::step(double gradient_scale) {
  update({.gradient_scale = gradient_scale, .step = draws() ? steps() + 1 : 1});
  ++steps_;
}

void Sgd::step_if_finite(const Tensor& gradient_scale, const Tensor& found) {
  const Tensor one = one_if_finite(found);
  kernels::StepNumbers numbers{.gradient_scale = gradient_scale, .skip = found};
  Tensor number;
  if (draws()) numbers.step = number = update_number();
  update({.in_memory = numbers});
  count(one);
}

// `options` without those of the optimizer.
void Sgd::update(kernels::SgdOptions options) {
  check_step(options.gradient_scale);
  MemoryScope scope(MemoryCategory::optimizer);
  const size_t count = parameter_count();
  std::vector<kernels::SgdTensor> entries(count);
  std::vector<bool> is_fresh(count);
  TensorList gradients(count), parts(count), copies(count), parameters(count);
  for_each([&](ParameterGroup& group, Tensor& parameter, size_t place) {
    if (!parameter.grad().defined()) return;
    parameters[place] = parameter;
    gradients[place] = owned_gradient(parameter, place);
    const Tensor part = parts[place] = owned_part(parameter, place);
    const Tensor copy = copies[place] = masters_.copy_of(part, place);
    kernels::SgdTensor& entry = entries[place];
    entry = {copy, gradients[place], {}, rate_of(group), group.weight_decay};
    if (!copy.is_same(part)) entry.rounded = part;
    masters_.make_remainder(part, place);
    if (masters_.is_split(part)) entry.remainder = masters_.remainders[place];
    entry.place = {int64_t(place), owned(parameter, place).begin};
    is_fresh[place] = make_velocity(parameter, place);
    if (options_.momentum > 0) entry.velocity = velocity_[place];
  });
  options.momentum = options_.momentum;
  options.nesterov = options_.nesterov;
  options.seed = options_.seed;
  options.parameters = int64_t(count);
  const std::vector<std::vector<size_t>> order = update_order();
  for (size_t part = 0; part < order.size(); ++part) {
    for (const bool first : {true, false}) {
      std::vector<kernels::SgdTensor> tensors;
      for (const size_t place : order[part])
        if (gradients[place].defined() && is_fresh[place] == first) tensors.push_back(entries[place]);
      if (tensors.empty()) continue;
      options.first_step = first;
      kernels::sgd(current_stream(tensors[0].parameter.device), tensors, options);
    }
    for (const size_t place : order[part]) {
      if (!gradients[place].defined()) continue;
      parameters[place].storage()->bump_version();
      masters_.keep(parts[place], place, copies[place]);
    }
    updated(part);
  }
}

nn::NamedTensors Sgd::counts() const {
  nn::NamedTensors all = GroupOptimizer::counts();
  if (draws()) all.emplace_back("seed", Tensor::from<int64_t>({int64_t(options_.seed)}, {1}));
  return all;
}

void Sgd::load_state_dict(const nn::NamedTensors& state) {
  nn::NamedTensors tensors = state;
  const uint64_t seed =
      draws() ? uint64_t(take_numbers("Sgd", tensors, "seed", 1, " draws")[0]) : options_.seed;
  GroupOptimizer::load_state_dict(tensors);
  options_.seed = seed;
}

}  // namespace reprise::optim
