// AdamW: collects the tensors and launches once.
#include "reprise/nn/optim/adamw.h"

#include "reprise/kernels/optimizer_step.h"

namespace reprise::optim {

AdamW::AdamW(TensorList parameters, const AdamWOptions& options)
    : AdamW(std::vector<ParameterGroup>{{std::move(parameters), options.lr, options.weight_decay}}, options) {
}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : Optimizer(std::move(groups)), options_(options), first_(parameter_count()), second_(parameter_count()) {
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "AdamW: betas must be in [0, 1), got ", options.beta1, " and ", options.beta2);
}

void AdamW::step(double gradient_scale) {
  MemoryScope scope(MemoryCategory::optimizer);
  std::vector<kernels::AdamWTensor> tensors;
  TensorList gradients;
  for_each([&](ParameterGroup& group, Tensor& parameter, size_t place) {
    Tensor gradient = parameter.grad();
    if (!gradient) return;
    if (!first_[place]) {
      first_[place] = Tensor::zeros(parameter.shape(), parameter.dtype(), parameter.device());
      second_[place] = Tensor::zeros(parameter.shape(), parameter.dtype(), parameter.device());
    }
    gradients.push_back(gradient.detach().contiguous());
    tensors.push_back(
        {parameter, gradients.back(), first_[place], second_[place], group.lr, group.weight_decay});
    parameter.storage()->bump_version();
  });
  ++steps_;
  if (tensors.empty()) return;
  kernels::adamw(current_stream(gradients[0].device()), tensors,
                 {options_.beta1, options_.beta2, options_.eps, steps_, gradient_scale});
}

nn::NamedTensors AdamW::state_dict() const {
  return named_state({{"first_moment", &first_}, {"second_moment", &second_}});
}

void AdamW::load_state_dict(const nn::NamedTensors& state) {
  load_named_state(state, {{"first_moment", &first_}, {"second_moment", &second_}});
}

}  // namespace reprise::optim
