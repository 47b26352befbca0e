// Several optimizers as one: what they do together.
#include "reprise/nn/optim/optimizer_list.h"

#include <charconv>
#include <numeric>

#include "reprise/core/tensor_set.h"

namespace reprise::optim {

OptimizerList::OptimizerList(std::vector<std::reference_wrapper<Optimizer>> optimizers)
    : optimizers_(std::move(optimizers)) {
  check(!optimizers_.empty(), "OptimizerList: no optimizers given");
  TensorSet seen;
  for (size_t i = 0; i < optimizers_.size(); ++i)
    for (const ParameterGroup* group : optimizers_[i].get().all_groups())
      for (const Tensor& parameter : group->parameters)
        check(seen.insert(parameter), "OptimizerList: optimizer ", i, " has a parameter of shape ",
              parameter.shape(), " that it, or one before it, has already");
}

// One steps after the other.
std::vector<size_t> OptimizerList::step_temporaries() const {
  std::vector<size_t> most;
  auto sum = [](const std::vector<size_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), size_t(0));
  };
  for (Optimizer& optimizer : optimizers_)
    if (auto own = optimizer.step_temporaries(); sum(own) > sum(most)) most = std::move(own);
  return most;
}

std::vector<ParameterGroup*> OptimizerList::all_groups() {
  std::vector<ParameterGroup*> all;
  for (Optimizer& optimizer : optimizers_)
    for (ParameterGroup* group : optimizer.all_groups()) all.push_back(group);
  return all;
}

std::vector<std::pair<std::string, Optimizer*>> OptimizerList::parts() {
  std::vector<std::pair<std::string, Optimizer*>> all;
  for (size_t i = 0; i < optimizers_.size(); ++i)
    for (auto& [prefix, part] : optimizers_[i].get().parts())
      all.emplace_back(std::to_string(i) + "." + prefix, part);
  return all;
}

std::vector<WideParameter> OptimizerList::wide_parameters() {
  std::vector<WideParameter> all;
  for (Optimizer& optimizer : optimizers_)
    for (WideParameter& wide : optimizer.wide_parameters()) all.push_back(std::move(wide));
  return all;
}

void OptimizerList::step(double gradient_scale) {
  check_groups();
  for (Optimizer& optimizer : optimizers_) optimizer.step(gradient_scale);
}

void OptimizerList::step_if_finite(const Tensor& gradient_scale, const Tensor& found) {
  check_groups();
  for (Optimizer& optimizer : optimizers_) optimizer.step_if_finite(gradient_scale, found);
}

void OptimizerList::allocate_state() {
  for (Optimizer& optimizer : optimizers_) optimizer.allocate_state();
}

nn::NamedTensors OptimizerList::states(nn::NamedTensors (Optimizer::*of_each)() const) const {
  nn::NamedTensors state;
  for (size_t i = 0; i < optimizers_.size(); ++i)
    for (const auto& [name, tensor] : (optimizers_[i].get().*of_each)())
      state.emplace_back(std::to_string(i) + "." + name, tensor);
  return state;
}

nn::NamedTensors OptimizerList::state_dict() const { return states(&Optimizer::state_dict); }

nn::NamedTensors OptimizerList::own_state_dict() const { return states(&Optimizer::own_state_dict); }

void OptimizerList::load_state_dict(const nn::NamedTensors& state) {
  std::vector<nn::NamedTensors> parts(optimizers_.size()), before;
  for (const auto& [name, tensor] : state) {
    size_t place = parts.size();
    auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place);
    size_t length = size_t(end - name.data());
    check(error == std::errc() && place < parts.size() && name.substr(length, 1) == ".",
          "OptimizerList: state ", name, " is of none of the ", parts.size(), " optimizers");
    parts[place].emplace_back(name.substr(length + 1), tensor);
  }
  for (const Optimizer& optimizer : optimizers_) before.push_back(optimizer.own_state_dict());
  size_t loaded = 0;
  try {
    for (; loaded < parts.size(); ++loaded) optimizers_[loaded].get().load_state_dict(parts[loaded]);
  } catch (const Error&) {
    while (loaded-- > 0) optimizers_[loaded].get().load_state_dict(before[loaded]);
    throw;
  }
}

}  // namespace reprise::optim
