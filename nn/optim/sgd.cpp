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

void Sgd::allocate_state() {
  if (options_.momentum > 0) make_zeros(velocity_);
  MemoryScope scope(MemoryCategory::optimizer);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    masters_.keep(parameter, place, masters_.copy_of(parameter, place));
  });
}

std::vector<WideParameter> Sgd::wide_parameters() {
  std::vector<WideParameter> all;
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    all.push_back({masters_.copy_of(parameter, place), {}});
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
  std::vector<kernels::SgdTensor> fresh, running;
  TensorList gradients, copies(parameter_count());
  for_each([&](ParameterGroup& group, Tensor& parameter, size_t place) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined()) return;
    gradients.push_back(gradient.detach().contiguous());
    const Tensor copy = copies[place] = masters_.copy_of(parameter, place);
    kernels::SgdTensor entry{copy, gradients.back(), {}, rate_of(group), group.weight_decay};
    if (!copy.is_same(parameter)) entry.rounded = parameter;
    bool first = options_.momentum > 0 && !velocity_[place].defined();
    if (first)
      velocity_[place] = Tensor::zeros(parameter.shape(), state_dtype(parameter), parameter.device());
    if (options_.momentum > 0) entry.velocity = velocity_[place];
    (first ? fresh : running).push_back(entry);
  });
  for (bool first : {true, false}) {
    auto& tensors = first ? fresh : running;
    if (tensors.empty()) continue;
    kernels::sgd(current_stream(gradients[0].device()), tensors,
                 {options_.momentum, options_.nesterov, first, gradient_scale, in_memory});
  }
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    if (!copies[place].defined()) return;
    parameter.storage()->bump_version();
    masters_.keep(parameter, place, copies[place]);
  });
}

}  // namespace reprise::optim
