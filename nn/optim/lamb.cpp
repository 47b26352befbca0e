// Lamb, from simple operations: a tensor's update needs its norm before its first element changes.
#include "reprise/nn/optim/lamb.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/optim/state_numbers.h"
#include "reprise/nn/optim/trust_ratio.h"

namespace reprise::optim {

Lamb::Lamb(TensorList parameters, const LambOptions& options)
    : Lamb(Checked(), std::vector<ParameterGroup>{{std::move(parameters), options.lr, options.weight_decay}},
           options) {}

Lamb::Lamb(std::vector<ParameterGroup> groups, const LambOptions& options)
    : Lamb(Checked(), checked("Lamb", std::move(groups), options.lr, options.weight_decay), options) {}

Lamb::Lamb(Checked, std::vector<ParameterGroup> groups, const LambOptions& options)
    : GroupOptimizer(std::move(groups)), options_(options), updates_(parameter_count()) {
  add_state({"first_moment", &first_});
  add_state({"second_moment", &second_});
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "Lamb: betas must be in [0, 1), got ", options.beta1, " and ", options.beta2);
  check(options.eps >= 0 && std::isfinite(options.eps),
        "Lamb: eps must be a finite number of at least 0, got ", options.eps);
}

void Lamb::step(double gradient_scale) {
  check_step(gradient_scale);
  for_each([](ParameterGroup&, Tensor& parameter, size_t place) {
    check_full_precision("Lamb", parameter, place);
  });
  MemoryScope scope(MemoryCategory::optimizer);
  NoGrad guard;
  ++steps_;
  for_each([&](ParameterGroup& group, Tensor& parameter, size_t place) {
    Tensor gradient = parameter.grad();
    if (gradient.defined()) update(group, parameter, gradient.detach() * gradient_scale, place);
  });
}

void Lamb::allocate_state() {
  make_zeros(first_);
  make_zeros(second_);
}

// The scaled gradient, and the five of the line that makes `direction`, which go at its end.
std::vector<size_t> Lamb::step_temporaries() const {
  return std::vector<size_t>(6, largest_parameter_bytes());
}

nn::NamedTensors Lamb::counts() const {
  nn::NamedTensors all = GroupOptimizer::counts();
  all.emplace_back("updates", Tensor::from(updates_, {int64_t(updates_.size())}));
  return all;
}

void Lamb::load_state_dict(const nn::NamedTensors& state) {
  nn::NamedTensors tensors = state;
  std::vector<int64_t> updates = take_updates("Lamb", tensors, updates_.size(), most_steps);
  GroupOptimizer::load_state_dict(tensors);
  updates_ = std::move(updates);
}

void Lamb::update(const ParameterGroup& group, const Tensor& parameter, const Tensor& gradient,
                  size_t place) {
  Tensor& first = first_[place];
  Tensor& second = second_[place];
  if (!first.defined()) {
    first = Tensor::zeros(parameter.shape(), parameter.dtype(), parameter.device());
    second = Tensor::zeros(parameter.shape(), parameter.dtype(), parameter.device());
  }
  first.mul_(options_.beta1).add_(gradient, 1 - options_.beta1);
  second.mul_(options_.beta2).add_(square(gradient), 1 - options_.beta2);
  const double updates = double(++updates_[place]);
  const double correction1 = 1 - std::pow(options_.beta1, updates);
  const double correction2 = 1 - std::pow(options_.beta2, updates);
  Tensor direction = (first * (1 / correction1)) / (sqrt(second * (1 / correction2)) + options_.eps);
  if (group.weight_decay > 0 || group.decays) {
    direction.add_(parameter.detach(), group.weight_decay);
    Tensor weight_norm = norm_of(parameter.detach()), norm = norm_of(direction);
    direction = direction * trusted(weight_norm / norm, weight_norm, norm);
  }
  parameter.add_(direction, -rate_of(group));
}

}  // namespace reprise::optim
