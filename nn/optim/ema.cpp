// Exponential moving average of a module.
#include "reprise/nn/optim/ema.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/optimizer/lerp.h"

namespace reprise::optim {

namespace {

// Averages are never of 16 bits: a thousandth of the way to a new value is below half of their last bit.
DType average_dtype(const Tensor& value) { return size_of(value.dtype()) == 2 ? DType::f32 : value.dtype(); }

// Elements of an average, in its memory.
Tensor elements_of(const Tensor& average, const ElementRange& part) {
  return average.reshape({average.numel()}).slice(0, part.begin, part.end);
}

double checked(double decay) {
  check(decay >= 0 && decay < 1, "Ema: decay must be in [0, 1), got ", decay);
  return decay;
}

}  // namespace

EmaDecay ema_warmup(double decay) {
  checked(decay);
  return [decay](int64_t update) { return std::min(decay, 1 - std::pow(1 + double(update), -2.0 / 3)); };
}

Ema::Ema(const nn::Module& module, double decay)
    : Ema(module, [decay = checked(decay)](int64_t) { return decay; }) {
  constant_ = decay;
}

Ema::Ema(const nn::Module& module, EmaDecay decay) : decay_(std::move(decay)) {
  MemoryScope scope(MemoryCategory::optimizer);
  NoGrad guard;
  for (auto& [name, tensor] : module.state_dict()) {
    followed_.push_back(tensor);
    averages_.emplace_back(
        name, tensor.dtype() == average_dtype(tensor) ? tensor.clone() : tensor.to(average_dtype(tensor)));
  }
  parts_.resize(averages_.size());
}

Ema::Ema(const nn::NamedTensors& followed, nn::NamedTensors averages, EmaDecay decay)
    : decay_(std::move(decay)),
      averages_(std::move(averages)),
      parts_(averages_.size()),
      live_elsewhere_(true) {
  check(followed.size() == averages_.size(), "Ema: ", averages_.size(), " averages for ", followed.size(),
        " tensors");
  for (size_t i = 0; i < followed.size(); ++i) {
    const auto& [name, tensor] = followed[i];
    const auto& [own, average] = averages_[i];
    check(own == name && average.shape() == tensor.shape() && average.dtype() == average_dtype(tensor),
          "Ema: ", own, ' ', average.dtype(), average.shape(), " cannot be the average of ", name, ' ',
          tensor.dtype(), tensor.shape());
    followed_.push_back(tensor);
  }
}

void Ema::follow_masters(Optimizer& optimizer) {
  masters_ = &optimizer;
  places_.clear();
  for (const ParameterGroup* group : optimizer.all_groups())
    for (const Tensor& parameter : group->parameters) {
      const auto same = [&](const Tensor& tensor) { return tensor.is_same(parameter); };
      const auto found = std::find_if(followed_.begin(), followed_.end(), same);
      places_.push_back(found == followed_.end() ? std::nullopt
                                                 : std::optional(size_t(found - followed_.begin())));
    }
  if (live_elsewhere_) return;
  const std::vector<WideParameter> followed = values();
  for (size_t i = 0; i < followed.size(); ++i)
    check(!parts_[i] || followed[i].part == parts_[i]->range, "Ema: of the average of ", averages_[i].first,
          " it has another part already");
  for (size_t i = 0; i < followed.size(); ++i)
    if (followed[i].part && !parts_[i]) keep_part(i, *followed[i].part);
}

// The others' elements are theirs from now on.
void Ema::keep_part(size_t place, const ElementRange& range) {
  Tensor& average = averages_[place].second;
  MemoryScope scope(MemoryCategory::optimizer);
  NoGrad guard;
  parts_[place] = Part{range, elements_of(average, range).clone()};
  average = Tensor::hollow(
      {nullptr, average.shape(), contiguous_strides(average.shape()), average.dtype(), average.device()});
}

void Ema::keep_part(const Tensor& followed, const Tensor& elements) {
  const std::optional<size_t> place = place_of(followed);
  const std::optional<ElementRange> range = place ? values()[*place].part : std::nullopt;
  check(live_elsewhere_ && range && range->count() == elements.numel(), "Ema: ", elements.numel(),
        " elements are no part of an average that lives elsewhere and follows ",
        range ? range->count() : int64_t(0));
  parts_[*place] = Part{*range, elements};
}

std::vector<WideParameter> Ema::values() const {
  std::vector<WideParameter> values;
  for (const Tensor& tensor : followed_) values.push_back({tensor, {}});
  if (!masters_) return values;
  const std::vector<WideParameter> wide = masters_->wide_parameters();
  check(wide.size() == places_.size(), "Ema: the optimizer has ", wide.size(), " parameters, had ",
        places_.size());
  for (size_t i = 0; i < wide.size(); ++i)
    if (places_[i]) values[*places_[i]] = wide[i];
  return values;
}

bool Ema::follows_parts() const {
  return std::ranges::any_of(values(), [](const WideParameter& value) { return value.part.has_value(); });
}

std::optional<size_t> Ema::place_of(const Tensor& followed) const {
  const auto found =
      std::ranges::find_if(followed_, [&](const Tensor& value) { return value.is_same(followed); });
  return found == followed_.end() ? std::nullopt : std::optional(size_t(found - followed_.begin()));
}

Tensor Ema::average_of(const Tensor& followed) const {
  const std::optional<size_t> place = place_of(followed);
  return place ? averages_[*place].second : Tensor();
}

Tensor Ema::part_of(const Tensor& followed) const {
  const std::optional<size_t> place = place_of(followed);
  return place && parts_[*place] ? parts_[*place]->elements : Tensor();
}

void Ema::blend(double decay, const Tensor& found) {
  if (followed_.empty()) return;
  NoGrad guard;
  const std::vector<WideParameter> kept = values();  // alive until the kernel is done
  std::vector<kernels::LerpTensor> tensors;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i].value.numel() == 0) continue;
    Tensor average = averages_[i].second;
    if (kept[i].part) average = parts_[i] ? parts_[i]->elements : elements_of(average, *kept[i].part);
    kernels::LerpTensor tensor{average, kept[i].value};
    if (kept[i].remainder.defined()) tensor.remainder = kept[i].remainder;
    tensors.push_back(tensor);
  }
  kernels::LerpOptions options{.decay = decay};
  if (found.defined()) options.skip = found;
  kernels::lerp(current_stream(followed_[0].device()), tensors, options);
  for (const auto& [name, average] : averages_) average.storage()->bump_version();
  for (const std::optional<Part>& part : parts_)
    if (part) part->elements.storage()->bump_version();
}

void Ema::update() { update_while_finite({}); }

void Ema::update_while_finite(const Tensor& found) {
  blend(checked(decay_(updates())), found);
  ++updates_;
}

void Ema::update_if_finite(const Tensor& found) {
  if (!constant_) {
    if (found.item() == 0) update();
    return;
  }
  NoGrad guard;
  blend(*constant_, found);
  const Tensor one = equal(found, Tensor::zeros({}, DType::i32, found.device())).to(DType::i64);
  counted_ = counted_.defined() ? counted_ + one : one;
}

int64_t Ema::updates() const { return updates_ + (counted_.defined() ? int64_t(counted_.item()) : 0); }

void Ema::set_updates(int64_t updates) {
  check(updates >= 0, "Ema: the number of updates must be at least 0, got ", updates);
  updates_ = updates;
  counted_ = {};
}

void Ema::load_state_dict(const nn::NamedTensors& state) {
  for (const auto& [name, average] : state) {
    check(average.defined(), "Ema: the average of ", name, " is undefined");
    check(!average.is_hollow(), "Ema: the average of ", name, " is hollow: this rank has a part of it");
  }
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
  for (size_t i = 0; i < averages_.size(); ++i) {
    auto& [name, average] = averages_[i];
    const Tensor& whole = given.at(name);
    if (parts_[i])
      parts_[i]->elements.copy_(elements_of(whole, parts_[i]->range));
    else
      average.copy_(whole);
  }
}

Ema::Scope::Scope(const Ema& ema, const Whole& whole) : ema_(ema) {
  for (const Tensor& value : ema_.followed_)
    held_.push_back(value.is_hollow() ? Tensor() : value.detach());  // a view would hold memory that is lent
  NoGrad guard;
  TensorList
      averages;  // those of values of 16 bits are rounded copies; all are made before the first takes its place
  for (size_t i = 0; i < held_.size(); ++i) {
    const auto& [name, kept] = ema_.averages_[i];
    if (!held_[i].defined()) {
      check(whole && !whole(ema_.followed_[i]).defined(), "Ema::Scope: ", name,
            " is hollow; give distributed::whole_averages within a distributed::WholeWeights, or use "
            "distributed::EvaluatedWeights");
      averages.emplace_back();
      continue;
    }
    check(!kept.is_hollow() || whole, "Ema::Scope: of the average of ", name,
          " this rank has a part; give distributed::whole_averages");
    const Tensor average = kept.is_hollow() ? whole(ema_.followed_[i]) : kept;
    averages.push_back(average.dtype() == held_[i].dtype() ? average : average.to(held_[i].dtype()));
  }
  for (size_t i = 0; i < held_.size(); ++i)
    if (averages[i].defined()) ema_.followed_[i].set_data(averages[i]);
}

Ema::Scope::~Scope() {
  for (size_t i = 0; i < held_.size(); ++i)
    if (held_[i].defined()) ema_.followed_[i].set_data(held_[i]);
}

}  // namespace reprise::optim
