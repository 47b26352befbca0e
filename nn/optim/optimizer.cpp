// Groups, state by name, gradient norms.
#include "reprise/nn/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/overlap.h"
#include "reprise/core/tensor_set.h"
#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/nn/optim/scaled_gradients.h"
#include "reprise/nn/optim/state_range.h"
#include "reprise/nn/registration.h"

namespace reprise::optim {

GroupOptimizer::GroupOptimizer(std::vector<ParameterGroup> groups) : groups_(std::move(groups)) {
  check(parameter_count() > 0, "optimizer: no parameters given");
  for_each([](ParameterGroup&, Tensor& parameter, size_t place) {
    check(parameter.defined() && parameter.is_leaf() && parameter.requires_grad(), "optimizer: parameter ",
          place, " is not a leaf that requires grad");
    check(parameter.is_contiguous(), "optimizer: parameter ", place, " of shape ", parameter.shape(),
          " is not contiguous");
  });
  GroupOptimizer::check_groups();
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

std::vector<ParameterGroup> GroupOptimizer::checked(const char* op, std::vector<ParameterGroup> groups,
                                                    const Setting& lr, const Setting& weight_decay) {
  check(!lr.is_given(), op, ": lr ", double(lr), " beside groups, which bring their own; set the groups' lr");
  check(!weight_decay.is_given(), op, ": weight_decay ", double(weight_decay),
        " beside groups, which bring their own; set the groups' weight_decay");
  return groups;
}

void GroupOptimizer::add_state(const char* op, Masters& masters) {
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    check(masters.kind == Master::f32 || parameter.dtype() != DType::f16, op, ": parameter ", place,
          " is f16, of which only a master copy in f32 can be kept");
  });
  if (masters.kind == Master::f32)
    add_state({"master", &masters.copies, [](const Tensor& parameter, const Shape& shape) {
                 return size_of(parameter.dtype()) == 2 ? std::optional(StateForm{DType::f32, shape})
                                                        : std::nullopt;
               }});
  if (masters.kind != Master::split) return;
  add_state({"remainder", &masters.remainders, [&masters](const Tensor& parameter, const Shape& shape) {
               std::optional<StateForm> form;
               if (!masters.is_split(parameter)) return form;
               form = {DType::u8, shape};
               form->shape.push_back(2);
               return form;
             }});
}

ElementRange GroupOptimizer::owned(const Tensor& parameter, size_t) const { return {0, parameter.numel()}; }

bool GroupOptimizer::is_whole(const Tensor& parameter, size_t place) const {
  return owned(parameter, place) == ElementRange{0, parameter.numel()};
}

Tensor GroupOptimizer::owned_part(const Tensor& parameter, size_t place) const {
  if (is_whole(parameter, place)) return parameter;
  const ElementRange range = owned(parameter, place);
  return parameter.detach().reshape({parameter.numel()}).slice(0, range.begin, range.end);
}

Tensor GroupOptimizer::owned_gradient(const Tensor& parameter, size_t) const {
  return parameter.grad().detach().contiguous();
}

std::vector<std::vector<size_t>> GroupOptimizer::update_order() const {
  std::vector<size_t> all(parameter_count());
  std::iota(all.begin(), all.end(), size_t(0));
  return {all};
}

Tensor GroupOptimizer::whole_state(const StateList&, const Tensor&, size_t, const Tensor& own) const {
  return own;
}

ElementRange GroupOptimizer::state_range(const StateList& list, const Tensor& parameter,
                                         const ElementRange& elements) {
  const int64_t begin = numel_of(list.form(parameter, {elements.begin})->shape);
  return {begin, begin + numel_of(list.form(parameter, {elements.count()})->shape)};
}

void GroupOptimizer::add_state(StateList list) {
  list.tensors->resize(parameter_count());
  state_.push_back(std::move(list));
}

std::vector<WideParameter> Optimizer::wide_parameters() {
  std::vector<WideParameter> all;
  for (ParameterGroup* group : all_groups())
    for (Tensor& parameter : group->parameters) all.push_back({parameter, {}});
  return all;
}

std::vector<ParameterGroup*> GroupOptimizer::all_groups() {
  std::vector<ParameterGroup*> all;
  for (ParameterGroup& group : groups_) all.push_back(&group);
  return all;
}

size_t GroupOptimizer::largest_parameter_bytes() const {
  size_t largest = 0;
  for (const ParameterGroup& group : groups_)
    for (const Tensor& parameter : group.parameters)
      largest = std::max(largest, size_t(parameter.numel()) * size_of(parameter.dtype()));
  return largest;
}

size_t GroupOptimizer::parameter_count() const {
  size_t count = 0;
  for (const ParameterGroup& group : groups_) count += group.parameters.size();
  return count;
}

void GroupOptimizer::make_zeros(TensorList& list) {
  MemoryScope scope(MemoryCategory::optimizer);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    if (!list[place].defined())
      list[place] = Tensor::zeros(parameter.shape(), state_dtype(parameter), parameter.device());
  });
}

void Optimizer::zero_grad() {
  for (ParameterGroup* group : all_groups())
    for (Tensor& parameter : group->parameters) parameter.set_grad({});
}

void Optimizer::check_gradients(const kernels::GradientCheck& check) {
  TensorList parameters;
  for (const ParameterGroup* group : all_groups())
    parameters.insert(parameters.end(), group->parameters.begin(), group->parameters.end());
  const TensorList gradients = contiguous_gradients(parameters);  // alive until the kernel is done
  const std::vector<TensorView> views(gradients.begin(), gradients.end());
  kernels::norm_and_check(current_stream(check.norm.device), views, check);
}

void Optimizer::set_lr(double lr) {
  check(lr >= 0 && std::isfinite(lr), "set_lr: the rate must be a finite number of at least 0, got ", lr);
  std::vector<ParameterGroup*> groups = all_groups();
  for (const ParameterGroup* group : groups)
    check(group->lr == groups[0]->lr, "set_lr: the groups have rates of their own, ", groups[0]->lr, " and ",
          group->lr,
          ", which one for all would make equal; give them one lr and an lr_scale each, or set "
          "groups()[i].lr");
  for (ParameterGroup* group : groups) group->lr = lr;
}

void Optimizer::set_weight_decay(double weight_decay) {
  check(weight_decay >= 0 && std::isfinite(weight_decay),
        "set_weight_decay: the decay must be a finite number of at least 0, got ", weight_decay);
  std::vector<ParameterGroup*> groups = all_groups();
  std::erase_if(groups,
                [](const ParameterGroup* group) { return group->weight_decay == 0 && !group->decays; });
  for (const ParameterGroup* group : groups)
    check(group->weight_decay == groups[0]->weight_decay,
          "set_weight_decay: the groups have decays of their own, ", groups[0]->weight_decay, " and ",
          group->weight_decay, ", which one for all would make equal");
  for (ParameterGroup* group : groups) group->weight_decay = weight_decay, group->decays = true;
}

void Optimizer::check_groups() {
  auto fits = [](double x) { return x >= 0 && std::isfinite(x); };
  std::vector<ParameterGroup*> groups = all_groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    const ParameterGroup& group = *groups[i];
    check(fits(group.lr) && fits(group.lr_scale) && fits(group.weight_decay), "optimizer: group ", i,
          " has lr ", group.lr, ", lr_scale ", group.lr_scale, " and weight decay ", group.weight_decay,
          "; these must be finite and not negative");
  }
}

// A module may have been moved since.
void GroupOptimizer::check_devices() {
  std::optional<Device> device;
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    if (!device) device = parameter.device();
    check(parameter.device() == *device, "step: parameter ", place, " is on ", parameter.device(),
          ", the first on ", *device);
    for (const StateList& list : state_)
      if (const Tensor& state = (*list.tensors)[place]; state.defined())
        check(state.device() == *device, "step: parameter ", place, " was moved to ", *device, ", its ",
              list.name, " is on ", state.device(),
              "; move a module before its optimizer is made, or give this one its own state again: "
              "load_state_dict(state_dict())");
  });
}

void GroupOptimizer::check_step(double gradient_scale) {
  check_groups();
  check(std::isfinite(gradient_scale), "step: gradient_scale is ", gradient_scale);
  check_devices();
  if (!std::exchange(has_stepped_, true)) nn::detail::report_strays();
}

void Optimizer::step_if_finite(const Tensor& gradient_scale, const Tensor& found) {
  if (found.item() == 0) step(gradient_scale.item());
}

int64_t GroupOptimizer::steps() const {
  return steps_ + (counted_.defined() ? counted_.to_vector<int64_t>()[0] : 0);
}

Tensor GroupOptimizer::one_if_finite(const Tensor& found) {
  NoGrad guard;
  if (!counted_.defined()) counted_ = Tensor::zeros({}, DType::i64, found.device());
  if (counted_.device() != found.device()) counted_ = counted_.to(found.device());  // as the parameters were
  return equal(found, Tensor::zeros({}, DType::i32, found.device())).to(DType::i64);
}

Tensor GroupOptimizer::update_number() const {
  NoGrad guard;
  return counted_ + scalar(double(steps_ + 1), DType::i64, counted_.device());
}

nn::NamedTensors GroupOptimizer::state_dict() const {
  nn::NamedTensors state;
  for_each_state([&](const std::string& name, const StateList& list, const Tensor& parameter, size_t place,
                     const Tensor& own) {
    if (const Tensor whole = whole_state(list, parameter, place, own); whole.defined())
      state.emplace_back(name, whole);
  });
  for (auto& count : counts()) state.push_back(std::move(count));
  return state;
}

nn::NamedTensors GroupOptimizer::counts() const { return {{"steps", Tensor::from<int64_t>({steps()}, {1})}}; }

std::optional<GroupOptimizer::Given> GroupOptimizer::given_state(const std::map<std::string, Tensor>& state,
                                                                 const StateList& list,
                                                                 const Tensor& parameter,
                                                                 size_t place) const {
  NoGrad guard;
  const std::string name = std::to_string(place) + "." + list.name;
  const StateForm form = *list.form(parameter, parameter.shape());
  const ElementRange own = owned(parameter, place), range = state_range(list, parameter, own);
  const Shape own_shape =
      is_whole(parameter, place) ? form.shape : list.form(parameter, {own.count()})->shape;
  auto check_form = [&](const auto& entry, const Shape& shape) {
    check(entry.second.shape() == shape && entry.second.dtype() == form.dtype, "optimizer: state ",
          entry.first, " is ", entry.second.dtype(), entry.second.shape(), ", its parameter needs ",
          form.dtype, shape);
  };
  if (const auto whole = state.find(name); whole != state.end()) {
    check_form(*whole, form.shape);
    if (is_whole(parameter, place)) return Given{whole->second, 1};
    const Tensor flat = whole->second.contiguous().reshape({whole->second.numel()});
    return Given{flat.slice(0, range.begin, range.end).reshape(own_shape), 1};
  }
  const auto part = state.find(range_name({name, range.begin}));
  if (part == state.end()) return {};
  check_form(*part, {range.count()});
  const auto sizes = state.find(shape_name(name));
  check(sizes != state.end() && sizes->second.dtype() == DType::i64 &&
            Shape(sizes->second.to_vector<int64_t>()) == form.shape,
        "optimizer: state ", part->first, " is not said to be of one of ", form.shape);
  return Given{part->second.reshape(own_shape), 2};
}

void GroupOptimizer::load_state_dict(const nn::NamedTensors& state) {
  std::map<std::string, Tensor> given(state.begin(), state.end());
  for (const auto& [name, tensor] : state)
    check(tensor.defined(), "optimizer: state ", name, " is undefined");
  auto steps = given.find("steps");
  check(steps != given.end() && steps->second.numel() == 1 && steps->second.dtype() == DType::i64,
        "optimizer: the state has no number of \"steps\"");
  const int64_t step_count = steps->second.to_vector<int64_t>()[0];
  check(step_count >= 0 && step_count <= most_steps, "optimizer: the state has ", step_count, " \"steps\"");
  std::vector<TensorList> found(state_.size(), TensorList(parameter_count()));
  size_t used = 1;  // "steps"
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    std::optional<size_t> first;  // of the lists that this parameter is in
    for (size_t l = 0; l < state_.size(); ++l) {
      if (!state_[l].form(parameter, parameter.shape())) continue;
      if (!first) first = l;
      const std::optional<Given> own = given_state(given, state_[l], parameter, place);
      check(l == *first || own.has_value() == found[*first][place].defined(),
            "optimizer: the state of parameter ", place, " has one of ", state_[*first].name, " and ",
            state_[l].name, " without the other");
      if (!own) continue;
      found[l][place] = own->value;
      used += own->entries;
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
  for (size_t l = 0; l < state_.size(); ++l) *state_[l].tensors = std::move(found[l]);
  steps_ = step_count;
  counted_ = {};
}

TensorList contiguous_gradients(const TensorList& parameters) {
  TensorList gradients;
  for (const Tensor& parameter : parameters)
    if (Tensor gradient = parameter.grad(); gradient.defined())
      gradients.push_back(gradient.detach().contiguous());
  return gradients;
}

double grad_norm(const TensorList& parameters) {
  detail::check_unscaled("grad_norm", parameters);
  const TensorList kept = contiguous_gradients(parameters);  // alive until the kernel is done
  if (kept.empty()) return 0;
  const std::vector<TensorView> gradients(kept.begin(), kept.end());
  Tensor norm = Tensor::empty({}, DType::f64, kept[0].device());
  kernels::global_norm(current_stream(norm.device()), gradients, norm);
  return norm.item();
}

double clip_scale(double norm, double max_norm) {
  check(max_norm > 0, "clip: max_norm must be above 0, got ", max_norm);
  check(std::isfinite(norm), "clip: the norm of the gradients is ", norm, ", which no factor makes finite");
  return std::min(1.0, max_norm / (norm + 1e-6));
}

void clip_grad_value(const TensorList& parameters, double max_value) {
  check(max_value > 0, "clip: max_value must be above 0, got ", max_value);
  detail::check_unscaled("clip_grad_value", parameters);
  NoGrad guard;
  for (const Tensor& parameter : parameters) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    Tensor limit = scalar(max_value, gradient.dtype(), gradient.device());
    Tensor clipped = maximum(minimum(gradient, limit), -limit);
    if (overlaps_itself(gradient))
      parameter.set_grad(clipped);
    else
      gradient.copy_(clipped);
  }
}

double clip_grad_norm(const TensorList& parameters, double max_norm) {
  detail::check_unscaled("clip_grad_norm", parameters);
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
