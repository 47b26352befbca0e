// Groups, state by name, gradient norms.
#include "reprise/nn/optim/optimizer.h"

#include <algorithm>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/kernels/optimizer_step.h"

namespace reprise::optim {

Optimizer::Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {
  check(parameter_count() > 0, "optimizer: no parameters given");
  for_each([](ParameterGroup& group, Tensor& parameter, size_t place) {
    check(parameter.defined() && parameter.is_leaf() && parameter.requires_grad(), "optimizer: parameter ",
          place, " is not a leaf that requires grad");
    check(parameter.is_contiguous(), "optimizer: parameter ", place, " of shape ", parameter.shape(),
          " is not contiguous");
    check(group.lr >= 0 && group.weight_decay >= 0, "optimizer: negative lr ", group.lr, " or weight decay ",
          group.weight_decay);
  });
}

size_t Optimizer::parameter_count() const {
  size_t count = 0;
  for (const ParameterGroup& group : groups_) count += group.parameters.size();
  return count;
}

void Optimizer::zero_grad() {
  for_each([](ParameterGroup&, Tensor& parameter, size_t) { parameter.set_grad({}); });
}

void Optimizer::set_lr(double lr) {
  for (ParameterGroup& group : groups_) group.lr = lr;
}

nn::NamedTensors Optimizer::named_state(
    const std::vector<std::pair<std::string, const TensorList*>>& lists) const {
  nn::NamedTensors state;
  for (const auto& [name, list] : lists)
    for (size_t i = 0; i < list->size(); ++i)
      if ((*list)[i]) state.emplace_back(std::to_string(i) + "." + name, (*list)[i]);
  state.emplace_back("steps", Tensor::from<int64_t>({steps_}, {1}));
  return state;
}

void Optimizer::load_named_state(const nn::NamedTensors& state,
                                 const std::vector<std::pair<std::string, TensorList*>>& lists) {
  std::map<std::string, Tensor> given(state.begin(), state.end());
  check(given.contains("steps"), "optimizer: the state has no \"steps\"");
  std::vector<std::pair<Tensor*, Tensor>> found;
  for (const auto& [name, list] : lists) {
    for_each([&, &key = name, target = list](ParameterGroup&, Tensor& parameter, size_t place) {
      auto it = given.find(std::to_string(place) + "." + key);
      if (it == given.end()) return;
      check(it->second.shape() == parameter.shape(), "optimizer: state ", it->first, " is ",
            it->second.shape(), ", its parameter ", parameter.shape());
      found.emplace_back(&(*target)[place], it->second);
    });
  }
  check(found.size() + 1 == given.size(), "optimizer: the state holds ", given.size() - 1, " tensors, ",
        found.size(), " of them fit the parameters");
  MemoryScope scope(MemoryCategory::optimizer);
  for (auto& [target, value] : found) *target = value.clone();
  steps_ = int64_t(given.at("steps").item());
}

std::vector<ParameterGroup> decay_matrices(const nn::Module& module, double lr, double weight_decay) {
  ParameterGroup matrices{.lr = lr, .weight_decay = weight_decay}, vectors{.lr = lr};
  for (const Tensor& parameter : module.parameters())
    (parameter.rank() >= 2 ? matrices : vectors).parameters.push_back(parameter);
  return {matrices, vectors};
}

double grad_norm(const TensorList& parameters) {
  std::vector<TensorView> gradients;
  TensorList kept;  // contiguous copies, alive until the kernel is done
  for (const Tensor& parameter : parameters) {
    if (Tensor gradient = parameter.grad()) kept.push_back(gradient.detach().contiguous());
  }
  if (kept.empty()) return 0;
  for (const Tensor& gradient : kept) gradients.push_back(gradient);
  Tensor norm = Tensor::empty({}, DType::f64, kept[0].device());
  kernels::global_norm(current_stream(norm.device()), gradients, norm);
  return norm.item();
}

double clip_scale(double norm, double max_norm) { return std::min(1.0, max_norm / (norm + 1e-6)); }

double clip_grad_norm(const TensorList& parameters, double max_norm) {
  double norm = grad_norm(parameters);
  double scale = clip_scale(norm, max_norm);
  NoGrad guard;
  if (scale < 1)
    for (const Tensor& parameter : parameters)
      if (Tensor gradient = parameter.grad()) gradient.mul_(scale);
  return norm;
}

}  // namespace reprise::optim
