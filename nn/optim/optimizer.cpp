// Groups, state by name, gradient norms.
#include "reprise/nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/overlap.h"
#include "reprise/core/tensor_set.h"
#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/nn/registration.h"

namespace reprise::optim {

Optimizer::Optimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {
  check(parameter_count() > 0, "optimizer: no parameters given");
  for_each([](ParameterGroup&, Tensor& parameter, size_t place) {
    check(parameter.defined() && parameter.is_leaf() && parameter.requires_grad(), "optimizer: parameter ",
          place, " is not a leaf that requires grad");
    check(parameter.is_contiguous(), "optimizer: parameter ", place, " of shape ", parameter.shape(),
          " is not contiguous");
  });
  check_groups();
  for (const ParameterGroup& group : groups_) nn::detail::note_known(group.parameters);
  std::optional<Device> device;
  TensorSet seen;
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    if (!device) device = parameter.device();
    check(parameter.device() == *device, "optimizer: parameter ", place, " is on ", parameter.device(),
          ", the first on ", *device);
    check(seen.insert(parameter), "optimizer: parameter ", place, " of shape ", parameter.shape(),
          " is given twice");
  });
}

std::vector<ParameterGroup> Optimizer::checked(const char* op, std::vector<ParameterGroup> groups,
                                               const Setting& lr, const Setting& weight_decay) {
  check(!lr.is_given(), op, ": lr ", double(lr), " beside groups, which bring their own; set the groups' lr");
  check(!weight_decay.is_given(), op, ": weight_decay ", double(weight_decay),
        " beside groups, which bring their own; set the groups' weight_decay");
  return groups;
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
  check(lr >= 0 && std::isfinite(lr), "set_lr: the rate must be a finite number of at least 0, got ", lr);
  for (const ParameterGroup& group : groups_)
    check(group.lr == groups_[0].lr, "set_lr: the groups have rates of their own, ", groups_[0].lr, " and ",
          group.lr,
          ", which one for all would make equal; give them one lr and an lr_scale each, or set "
          "groups()[i].lr");
  for (ParameterGroup& group : groups_) group.lr = lr;
}

void Optimizer::check_groups() const {
  auto fits = [](double x) { return x >= 0 && std::isfinite(x); };
  for (size_t i = 0; i < groups_.size(); ++i) {
    const ParameterGroup& group = groups_[i];
    check(fits(group.lr) && fits(group.lr_scale) && fits(group.weight_decay), "optimizer: group ", i,
          " has lr ", group.lr, ", lr_scale ", group.lr_scale, " and weight decay ", group.weight_decay,
          "; these must be finite and not negative");
  }
}

void Optimizer::check_step(double gradient_scale) {
  check_groups();
  check(std::isfinite(gradient_scale), "step: gradient_scale is ", gradient_scale);
  if (!std::exchange(has_stepped_, true)) nn::detail::warn_of_strays();
}

nn::NamedTensors Optimizer::named_state(
    const std::vector<std::pair<std::string, const TensorList*>>& lists) const {
  nn::NamedTensors state;
  for (const auto& [name, list] : lists)
    for (size_t i = 0; i < list->size(); ++i)
      if ((*list)[i].defined()) state.emplace_back(std::to_string(i) + "." + name, (*list)[i]);
  state.emplace_back("steps", Tensor::from<int64_t>({steps_}, {1}));
  return state;
}

void Optimizer::load_named_state(const nn::NamedTensors& state, const std::vector<StateList>& lists) {
  std::map<std::string, Tensor> given(state.begin(), state.end());
  for (const auto& [name, tensor] : state)
    check(tensor.defined(), "optimizer: state ", name, " is undefined");
  auto steps = given.find("steps");
  check(steps != given.end() && steps->second.numel() == 1 && steps->second.dtype() == DType::i64,
        "optimizer: the state has no number of \"steps\"");
  const int64_t step_count = steps->second.to_vector<int64_t>()[0];
  check(step_count >= 0 && step_count <= most_steps, "optimizer: the state has ", step_count, " \"steps\"");
  std::vector<TensorList> found(lists.size(), TensorList(parameter_count()));
  size_t used = 1;  // "steps"
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    for (size_t l = 0; l < lists.size(); ++l) {
      if (lists[l].of_half_types && size_of(parameter.dtype()) != 2) continue;
      auto it = given.find(std::to_string(place) + "." + lists[l].name);
      bool here = it != given.end();
      check(l == 0 || here == found[0][place].defined(), "optimizer: the state of parameter ", place,
            " has one of ", lists[0].name, " and ", lists[l].name, " without the other");
      if (!here) continue;
      check(it->second.shape() == parameter.shape() && it->second.dtype() == state_dtype(parameter),
            "optimizer: state ", it->first, " is ", it->second.dtype(), it->second.shape(),
            ", its parameter needs ", state_dtype(parameter), parameter.shape());
      found[l][place] = it->second;
      ++used;
    }
  });
  check(used == given.size(), "optimizer: the state holds ", given.size() - 1, " tensors, ", used - 1,
        " of them fit the parameters");
  MemoryScope scope(MemoryCategory::optimizer);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    for (TensorList& list : found)
      if (Tensor& value = list[place]; value.defined())
        value = value.device() == parameter.device() ? value.clone() : value.to(parameter.device());
  });
  for (size_t l = 0; l < lists.size(); ++l) *lists[l].tensors = std::move(found[l]);
  steps_ = step_count;
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
    if (Tensor gradient = parameter.grad(); gradient.defined())
      kept.push_back(gradient.detach().contiguous());
  }
  if (kept.empty()) return 0;
  for (const Tensor& gradient : kept) gradients.push_back(gradient);
  Tensor norm = Tensor::empty({}, DType::f64, kept[0].device());
  kernels::global_norm(current_stream(norm.device()), gradients, norm);
  return norm.item();
}

double clip_scale(double norm, double max_norm) {
  check(max_norm > 0, "clip: max_norm must be above 0, got ", max_norm);
  check(std::isfinite(norm), "clip: the norm of the gradients is ", norm, ", which no factor makes finite");
  return std::min(1.0, max_norm / (norm + 1e-6));
}

double clip_grad_norm(const TensorList& parameters, double max_norm) {
  double norm = grad_norm(parameters);
  double scale = clip_scale(norm, max_norm);
  NoGrad guard;
  if (scale >= 1) return norm;
  for (const Tensor& parameter : parameters) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (overlaps_itself(gradient))
      parameter.set_grad(gradient * scale);
    else
      gradient.mul_(scale);
  }
  return norm;
}

}  // namespace reprise::optim
