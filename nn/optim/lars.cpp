// Lars, from simple operations: a tensor's update needs its norm before its first element changes.
#include "reprise/nn/optim/lars.h"

#include <cmath>

#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/optim/trust_ratio.h"

namespace reprise::optim {

Lars::Lars(TensorList parameters, const LarsOptions& options)
    : Lars(Checked(), std::vector<ParameterGroup>{{std::move(parameters), options.lr, options.weight_decay}},
           options) {}

Lars::Lars(std::vector<ParameterGroup> groups, const LarsOptions& options)
    : Lars(Checked(), checked("Lars", std::move(groups), options.lr, options.weight_decay), options) {}

Lars::Lars(Checked, std::vector<ParameterGroup> groups, const LarsOptions& options)
    : GroupOptimizer(std::move(groups)), options_(options) {
  add_state({"velocity", &velocity_});
  for (double number : {options.momentum, options.trust, options.eps})
    check(number >= 0 && std::isfinite(number), "Lars: momentum ", options.momentum, ", trust ",
          options.trust, " and eps ", options.eps, " must be finite numbers of at least 0");
}

void Lars::step(double gradient_scale) {
  check_step(gradient_scale);
  for_each([](ParameterGroup&, Tensor& parameter, size_t place) {
    check_full_precision("Lars", parameter, place);
  });
  MemoryScope scope(MemoryCategory::optimizer);
  NoGrad guard;
  ++steps_;
  for_each([&](ParameterGroup& group, Tensor& parameter, size_t place) {
    Tensor gradient = parameter.grad();
    if (gradient.defined()) update(group, parameter, gradient.detach() * gradient_scale, place);
  });
}

void Lars::allocate_state() {
  if (options_.momentum > 0) make_zeros(velocity_);
}

// The scaled gradient, and the three of the line that adds the decay, which go at its end.
std::vector<size_t> Lars::step_temporaries() const {
  return std::vector<size_t>(4, largest_parameter_bytes());
}

void Lars::update(const ParameterGroup& group, const Tensor& parameter, Tensor gradient, size_t place) {
  const double decay = group.weight_decay;
  if (decay > 0 || group.decays) {
    Tensor p = parameter.detach(), weight_norm = norm_of(p), norm = norm_of(gradient);
    Tensor ratio = weight_norm * options_.trust / (norm + weight_norm * decay + options_.eps);
    gradient = (gradient + p * decay) * trusted(ratio, weight_norm, norm);
  }
  Tensor& velocity = velocity_[place];
  if (options_.momentum > 0) {
    if (velocity.defined())
      velocity.mul_(options_.momentum).add_(gradient);
    else
      velocity = gradient.contiguous();
  }
  parameter.add_(options_.momentum > 0 ? velocity : gradient, -rate_of(group));
}

}  // namespace reprise::optim
