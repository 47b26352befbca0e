// SGD: parameters that meet their first gradient, and the others, in one launch each.
#include "reprise/nn/optim/sgd.h"

#include <cmath>

#include "reprise/kernels/optimizer/optimizer_step.h"

namespace reprise::optim {

Sgd::Sgd(TensorList parameters, const SgdOptions& options)
    : Sgd(Checked(), std::vector<ParameterGroup>{{std::move(parameters), options.lr, options.weight_decay}},
          options) {}

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Sgd(Checked(), checked("Sgd", std::move(groups), options.lr, options.weight_decay), options) {}

Sgd::Sgd(Checked, std::vector<ParameterGroup> groups, const SgdOptions& options)
    : GroupOptimizer(std::move(groups)), options_(options), masters_(parameter_count()) {
  if (options.momentum > 0) add_state({"velocity", &velocity_});
  add_state(list_of(masters_));
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
    masters_.keep(part, place, masters_.copy_of(part, place));
  });
}

std::vector<WideParameter> Sgd::wide_parameters() {
  std::vector<WideParameter> all;
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    all.push_back({masters_.copy_of(owned_part(parameter, place), place), {}});
  });
  return all;
}

void Sgd::step(double gradient_scale) {
  update(gradient_scale, {});
  ++steps_;
}

void Sgd::step_if_finite(const Tensor& gradient_scale, const Tensor& found) {
  const Tensor one = one_if_finite(found);
  update(1, {.gradient_scale = gradient_scale, .skip = found});
  count(one);
}

void Sgd::update(double gradient_scale, const kernels::StepNumbers& in_memory) {
  check_step(gradient_scale);
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
    is_fresh[place] = make_velocity(parameter, place);
    if (options_.momentum > 0) entry.velocity = velocity_[place];
  });
  const std::vector<std::vector<size_t>> order = update_order();
  for (size_t part = 0; part < order.size(); ++part) {
    for (const bool first : {true, false}) {
      std::vector<kernels::SgdTensor> tensors;
      for (const size_t place : order[part])
        if (gradients[place].defined() && is_fresh[place] == first) tensors.push_back(entries[place]);
      if (tensors.empty()) continue;
      kernels::sgd(current_stream(tensors[0].parameter.device), tensors,
                   {options_.momentum, options_.nesterov, first, gradient_scale, in_memory});
    }
    for (const size_t place : order[part]) {
      if (!gradients[place].defined()) continue;
      parameters[place].storage()->bump_version();
      masters_.keep(parts[place], place, copies[place]);
    }
    updated(part);
  }
}

}  // namespace reprise::optim
