// AdamW: collects the tensors and launches once for all that had equally many updates: as a rule, for all.
#include "reprise/nn/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/optimizer/optimizer_step.h"

namespace reprise::optim {

AdamW::AdamW(TensorList parameters, const AdamWOptions& options)
    : AdamW(Checked(), std::vector<ParameterGroup>{{std::move(parameters), options.lr, options.weight_decay}},
            options) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : AdamW(Checked(), checked("AdamW", std::move(groups), options.lr, options.weight_decay), options) {}

AdamW::AdamW(Checked, std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : GroupOptimizer(std::move(groups)),
      options_(options),
      written_(parameter_count()),
      updates_(parameter_count()) {
  add_state({"first_moment", &first_});
  add_state({"second_moment", &second_});
  add_state({"master", &master_, true});
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "AdamW: betas must be in [0, 1), got ", options.beta1, " and ", options.beta2);
  check(options.eps >= 0 && std::isfinite(options.eps),
        "AdamW: eps must be a finite number of at least 0, got ", options.eps);
}

Tensor AdamW::updated_copy(const Tensor& parameter, size_t place) const {
  if (size_of(parameter.dtype()) != 2) return parameter;
  const Tensor& master = master_[place];
  if (master.defined() && parameter.version() == written_[place]) return master;
  NoGrad guard;
  Tensor given = parameter.detach();
  if (!master.defined()) return given.to(DType::f32);
  // Elements that are still the master's, rounded, keep the digits that the parameter has no room for.
  return where(equal(master.to(given.dtype()), given), master, given.to(DType::f32));
}

void AdamW::make_moments(const Tensor& parameter, size_t place) {
  if (first_[place].defined()) return;
  Tensor first = Tensor::zeros(parameter.shape(), state_dtype(parameter), parameter.device());
  second_[place] = Tensor::zeros(parameter.shape(), state_dtype(parameter), parameter.device());
  first_[place] = first;
}

void AdamW::allocate_state() {
  MemoryScope scope(MemoryCategory::optimizer);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    make_moments(parameter, place);
    Tensor copy = updated_copy(parameter, place);
    if (copy.is_same(parameter)) return;
    master_[place] = copy;
    written_[place] = parameter.version();
  });
}

AdamW::Targets AdamW::make_targets() {
  MemoryScope scope(MemoryCategory::optimizer);
  const size_t count = parameter_count();
  Targets targets{TensorList(count), TensorList(count), std::vector<kernels::AdamWTensor>(count)};
  for_each([&](ParameterGroup& group, Tensor& parameter, size_t place) {
    Tensor gradient = parameter.grad();
    if (!gradient.defined()) return;
    gradient = targets.gradients[place] = gradient.detach().contiguous();
    const Tensor copy = targets.copies[place] = updated_copy(parameter, place);
    make_moments(parameter, place);
    targets.tensors[place] = {
        copy, gradient, first_[place], second_[place], rate_of(group), group.weight_decay, {}, {}};
    if (!copy.is_same(parameter)) targets.tensors[place].rounded = parameter;
  });
  return targets;
}

void AdamW::launch(Targets& targets, const std::vector<size_t>& places,
                   const kernels::AdamWOptions& options) {
  if (places.empty()) return;
  std::vector<kernels::AdamWTensor> tensors;
  for (size_t place : places) tensors.push_back(targets.tensors[place]);
  kernels::adamw(current_stream(targets.gradients[places[0]].device()), tensors, options);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    if (!std::binary_search(places.begin(), places.end(), place)) return;
    parameter.storage()->bump_version();
    if (targets.copies[place].is_same(parameter)) return;
    master_[place] = targets.copies[place];
    written_[place] = parameter.version();
  });
}

void AdamW::step(double gradient_scale) {
  check_step(gradient_scale);
  if (counts_.defined()) updates_ = updates(), counts_ = {};
  Targets targets = make_targets();
  std::map<int64_t, std::vector<size_t>> by_updates;  // parameters with as many, by place
  for (size_t place = 0; place < updates_.size(); ++place)
    if (targets.gradients[place].defined()) by_updates[updates_[place] + 1].push_back(place);
  for (const auto& [updates, places] : by_updates) {
    launch(targets, places, {options_.beta1, options_.beta2, options_.eps, updates, gradient_scale});
    for (size_t place : places) updates_[place] = updates;
  }
  ++steps_;
}

void AdamW::step_if_finite(const Tensor& gradient_scale, const Tensor& found) {
  check_step(1);
  Targets targets = make_targets();
  if (!counts_.defined())
    counts_ = Tensor::from(updates_, {int64_t(updates_.size())}).to(gradient_scale.device());
  const Tensor one = one_if_finite(found);
  std::vector<size_t> places;
  for (size_t place = 0; place < updates_.size(); ++place) {
    if (!targets.gradients[place].defined()) continue;
    const Tensor count = counts_.slice(0, int64_t(place), int64_t(place) + 1);
    targets.tensors[place].updates = count;
    places.push_back(place);
  }
  launch(targets, places,
         {options_.beta1,
          options_.beta2,
          options_.eps,
          1,
          1,
          {.gradient_scale = gradient_scale, .skip = found}});
  if (places.size() == updates_.size())
    counts_.add_(one);
  else
    for (size_t place : places) counts_.slice(0, int64_t(place), int64_t(place) + 1).add_(one);
  count(one);
}

std::vector<int64_t> AdamW::updates() const {
  return counts_.defined() ? counts_.to_vector<int64_t>() : updates_;
}

nn::NamedTensors AdamW::state_dict() const {
  nn::NamedTensors state = GroupOptimizer::state_dict();
  state.emplace_back("updates", Tensor::from(updates(), {int64_t(updates_.size())}));
  return state;
}

void AdamW::load_state_dict(const nn::NamedTensors& state) {
  nn::NamedTensors moments = state;
  auto found = std::find_if(moments.begin(), moments.end(),
                            [](const auto& entry) { return entry.first == "updates"; });
  check(found != moments.end() && found->second.defined() && found->second.dtype() == DType::i64 &&
            found->second.shape() == Shape{int64_t(updates_.size())},
        "AdamW: the state has no \"updates\" of its ", updates_.size(), " parameters");
  std::vector<int64_t> updates = found->second.to_vector<int64_t>();
  moments.erase(found);
  for (size_t place = 0; place < updates.size(); ++place)
    check(updates[place] >= 0 && updates[place] <= most_steps, "AdamW: the state has ", updates[place],
          " \"updates\" of parameter ", place);
  GroupOptimizer::load_state_dict(moments);
  updates_ = std::move(updates);
  counts_ = {};
}

}  // namespace reprise::optim
