// AdamW: collects the tensors and launches once for all of a part that had equally many updates: as a rule, for all.
#include "reprise/nn/optim/adamw.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/shadow_update.h"
#include "reprise/kernels/optimizer/optimizer_step.h"
#include "reprise/kernels/optimizer/quantized.h"
#include "reprise/nn/optim/state_numbers.h"

namespace reprise::optim {

AdamW::AdamW(TensorList parameters, const AdamWOptions& options)
    : AdamW(Checked(), std::vector<ParameterGroup>{{std::move(parameters), options.lr, options.weight_decay}},
            options) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : AdamW(Checked(), checked("AdamW", std::move(groups), options.lr, options.weight_decay), options) {}

AdamW::AdamW(Checked, std::vector<ParameterGroup> groups, const AdamWOptions& options)
    : GroupOptimizer(std::move(groups)),
      options_(options),
      masters_(parameter_count(), options.master),
      updates_(parameter_count()) {
  check(options.beta1 >= 0 && options.beta1 < 1 && options.beta2 >= 0 && options.beta2 < 1,
        "AdamW: betas must be in [0, 1), got ", options.beta1, " and ", options.beta2);
  check(options.eps >= 0 && std::isfinite(options.eps),
        "AdamW: eps must be a finite number of at least 0, got ", options.eps);
  check(options.moments == DType::f32 || options.moments == DType::bf16 || options.moments == DType::u8,
        "AdamW: moments must be f32, bf16 or u8, got ", options.moments);
  add_state_lists();
}

void AdamW::add_state_lists() {
  auto moments = [this](const Tensor& parameter, const Shape& shape) {
    return std::optional(StateForm{moments_of(parameter), shape});
  };
  add_state({"first_moment", &first_, moments});
  add_state({"second_moment", &second_, moments});
  if (options_.moments == DType::u8) {
    auto of_blocks = [this](const Tensor& parameter, const Shape& shape) {
      return moments_of(parameter) == DType::u8
                 ? std::optional(StateForm{DType::f32, {kernels::quantized_blocks(numel_of(shape))}})
                 : std::nullopt;
    };
    add_state({"first_moment_max", &first_largest_, of_blocks});
    add_state({"second_moment_max", &second_largest_, of_blocks});
  }
  add_state("AdamW", masters_);
}

DType AdamW::moments_of(const Tensor& parameter) const {
  if (parameter.dtype() == DType::f64) return DType::f64;
  const bool small = parameter.numel() < kernels::kLeastQuantized;
  return options_.moments == DType::u8 && small ? DType::f32 : options_.moments;
}

bool AdamW::draws() const { return options_.master == Master::stochastic || options_.moments != DType::f32; }

void AdamW::make_state(const Tensor& parameter, size_t place) {
  auto zeros = [&](const Shape& shape, DType dtype) {
    return Tensor::zeros(shape, dtype, parameter.device());
  };
  const Shape shape = owned_part(parameter, place).shape();
  masters_.make_remainder(owned_part(parameter, place), place);  // it may have become one of 16 bits
  if (first_[place].defined()) return;
  Tensor first = zeros(shape, moments_of(parameter)), second = zeros(shape, first.dtype());
  if (first.dtype() == DType::u8) {
    first.fill_(kernels::kDynamicZero);  // of the signed map; that of the other one is 0
    for (TensorList* largest : {&first_largest_, &second_largest_})
      (*largest)[place] = zeros({kernels::quantized_blocks(first.numel())}, DType::f32);
  }
  second_[place] = second;
  first_[place] = first;
}

void AdamW::allocate_state() {
  MemoryScope scope(MemoryCategory::optimizer);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    make_state(parameter, place);
    const Tensor part = owned_part(parameter, place);
    masters_.keep(part, place, masters_.copy_of(part, place));
  });
}

std::vector<WideParameter> AdamW::wide_parameters() {
  std::vector<WideParameter> all;
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    const Tensor part = owned_part(parameter, place);
    all.push_back(
        {masters_.copy_of(part, place), masters_.is_split(part) ? masters_.remainders[place] : Tensor()});
  });
  return all;
}

AdamW::Targets AdamW::make_targets() {
  MemoryScope scope(MemoryCategory::optimizer);
  const size_t count = parameter_count();
  Targets targets{TensorList(count), TensorList(count), TensorList(count),
                  std::vector<kernels::AdamWTensor>(count)};
  for_each([&](ParameterGroup& group, Tensor& parameter, size_t place) {
    if (!parameter.grad().defined()) return;
    const Tensor gradient = targets.gradients[place] = owned_gradient(parameter, place);
    const Tensor part = targets.parts[place] = owned_part(parameter, place);
    const Tensor copy = targets.copies[place] = masters_.copy_of(part, place);
    make_state(parameter, place);
    kernels::AdamWTensor& tensor = targets.tensors[place];
    tensor = {copy, gradient, first_[place], second_[place], rate_of(group), group.weight_decay};
    if (!copy.is_same(part))
      tensor.rounded = part;
    else if (const Tensor shadow = autograd::shadow_to_write(part);
             shadow.defined() && gradient.dtype() == DType::f32)
      tensor.rounded = shadow;
    if (masters_.is_split(part)) tensor.remainder = masters_.remainders[place];
    tensor.place = {int64_t(place), owned(parameter, place).begin};
    if (first_[place].dtype() == DType::u8) {
      tensor.first_largest = first_largest_[place];
      tensor.second_largest = second_largest_[place];
    }
  });
  return targets;
}

void AdamW::launch(Targets& targets, const std::vector<size_t>& places, kernels::AdamWOptions options) {
  if (places.empty()) return;
  options.seed = options_.seed;
  options.parameters = int64_t(parameter_count());
  std::vector<kernels::AdamWTensor> tensors;
  for (size_t place : places) tensors.push_back(targets.tensors[place]);
  kernels::adamw(current_stream(targets.gradients[places[0]].device()), tensors, options);
  for_each([&](ParameterGroup&, Tensor& parameter, size_t place) {
    if (!std::binary_search(places.begin(), places.end(), place)) return;
    parameter.storage()->bump_version();
    const Tensor& part = targets.parts[place];
    if (targets.tensors[place].rounded && targets.copies[place].is_same(part))
      autograd::keep_written_shadow(part);
    masters_.keep(part, place, targets.copies[place]);
  });
}

void AdamW::step(double gradient_scale) {
  check_step(gradient_scale);
  if (counts_.defined()) updates_ = updates(), counts_ = {};
  Targets targets = make_targets();
  const std::vector<std::vector<size_t>> order = update_order();
  for (size_t part = 0; part < order.size(); ++part) {
    std::map<int64_t, std::vector<size_t>> by_updates;  // parameters with as many, by place
    for (const size_t place : order[part])
      if (targets.gradients[place].defined()) by_updates[updates_[place] + 1].push_back(place);
    for (const auto& [updates, places] : by_updates) {
      launch(targets, places, {options_.beta1, options_.beta2, options_.eps, updates, gradient_scale});
      for (size_t place : places) updates_[place] = updates;
    }
    updated(part);
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
  const std::vector<std::vector<size_t>> order = update_order();
  for (size_t part = 0; part < order.size(); ++part) {
    std::vector<size_t> own;
    for (const size_t place : order[part]) {
      if (!targets.gradients[place].defined()) continue;
      const Tensor count = counts_.slice(0, int64_t(place), int64_t(place) + 1);
      targets.tensors[place].updates = count;
      own.push_back(place);
    }
    launch(targets, own,
           {.beta1 = options_.beta1,
            .beta2 = options_.beta2,
            .eps = options_.eps,
            .in_memory = {.gradient_scale = gradient_scale, .skip = found}});
    updated(part);
    places.insert(places.end(), own.begin(), own.end());
  }
  if (places.size() == updates_.size())
    counts_.add_(one);
  else
    for (size_t place : places) counts_.slice(0, int64_t(place), int64_t(place) + 1).add_(one);
  count(one);
}

std::vector<int64_t> AdamW::updates() const {
  return counts_.defined() ? counts_.to_vector<int64_t>() : updates_;
}

nn::NamedTensors AdamW::counts() const {
  nn::NamedTensors all = GroupOptimizer::counts();
  all.emplace_back("updates", Tensor::from(updates(), {int64_t(updates_.size())}));
  if (draws()) all.emplace_back("seed", Tensor::from<int64_t>({int64_t(options_.seed)}, {1}));
  return all;
}

void AdamW::load_state_dict(const nn::NamedTensors& state) {
  nn::NamedTensors tensors = state;
  std::vector<int64_t> updates = take_updates("AdamW", tensors, updates_.size(), most_steps);
  const uint64_t seed =
      draws() ? uint64_t(take_numbers("AdamW", tensors, "seed", 1, " draws")[0]) : options_.seed;
  GroupOptimizer::load_state_dict(tensors);
  updates_ = std::move(updates);
  options_.seed = seed;
  counts_ = {};
}

}  // namespace reprise::optim
