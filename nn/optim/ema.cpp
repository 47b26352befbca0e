// Exponential moving average of parameters.
#include "reprise/nn/optim/ema.h"

#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"

namespace reprise::optim {

Ema::Ema(const nn::Module& module, double decay) : decay_(decay) {
  check(decay >= 0 && decay < 1, "Ema: decay must be in [0, 1), got ", decay);
  MemoryScope scope(MemoryCategory::optimizer);
  NoGrad guard;
  for (auto& [name, parameter] : module.named_parameters()) {
    parameters_.push_back(parameter);
    averages_.emplace_back(name, parameter.clone());
  }
}

void Ema::update() {
  NoGrad guard;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    averages_[i].second.mul_(decay_);
    averages_[i].second.add_(parameters_[i], 1 - decay_);
  }
}

void Ema::load_state_dict(const nn::NamedTensors& state) {
  check(state.size() == averages_.size(), "Ema: ", state.size(), " averages given for ", averages_.size());
  std::map<std::string, Tensor> given(state.begin(), state.end());
  for (const auto& [name, average] : averages_) {
    auto found = given.find(name);
    check(found != given.end(), "Ema: no average of ", name, " given");
    check(found->second.shape() == average.shape() && found->second.dtype() == average.dtype(), "Ema: given ",
          name, ' ', found->second.dtype(), found->second.shape(), " where ", average.dtype(),
          average.shape(), " is wanted");
  }
  NoGrad guard;
  for (auto& [name, average] : averages_) average.copy_(given.at(name));
}

void Ema::swap() {
  NoGrad guard;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor held = parameters_[i].clone();
    parameters_[i].copy_(averages_[i].second);
    averages_[i].second.copy_(held);
  }
}

}  // namespace reprise::optim
