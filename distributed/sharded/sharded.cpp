#include "reprise/distributed/sharded/sharded.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/elements_on_rank_0.h"
#include "reprise/distributed/sharded/gather_weights.h"
#include "reprise/distributed/sharded/gradient_norm.h"
#include "reprise/nn/optim/state_range.h"

namespace reprise::distributed {

template <class Base>
void Sharded<Base>::share(const Sharing& sharing) {
  check(sharing.stage >= 0 && sharing.stage <= 3, op_, ": stage is ", sharing.stage, "; there are 0 to 3");
  check(sharing.stage == 3 || sharing.blocks.empty(), op_, ": stage ", sharing.stage,
        " has weights whole, and no blocks");
  if (sharing.stage > 0) parallel_.check_buckets_stay(op_);
  this->for_each([&](optim::ParameterGroup&, Tensor& parameter, size_t place) {
    const auto leaf =
        std::ranges::find_if(parallel_.leaves(), [&](const Tensor& own) { return own.is_same(parameter); });
    check(leaf != parallel_.leaves().end(), op_, ": parameter ", place, " of shape ", parameter.shape(),
          " is not trained by its DataParallel");
    leaves_.push_back(size_t(leaf - parallel_.leaves().begin()));
  });
  if (sharing.stage == 2) parallel_.scatter_gradients();
  if (sharing.stage == 3) parallel_.scatter_weights(sharing.blocks);
}

template <class Base>
const Shard& Sharded<Base>::shard(size_t place, int rank) const {
  return parallel_.shards().of_parameter(leaves_[place], rank);
}

template <class Base>
optim::ElementRange Sharded<Base>::owned(const Tensor& parameter, size_t place) const {
  return is_shared_ ? shard(place, parallel_.group().rank()).range : Base::owned(parameter, place);
}

template <class Base>
Tensor Sharded<Base>::owned_part(const Tensor& parameter, size_t place) const {
  const ScatteredWeights* scattered = parallel_.scattered_weights();
  if (!scattered || !scattered->has(leaves_[place])) return Base::owned_part(parameter, place);
  const Tensor& own = scattered->own(leaves_[place]);
  return this->is_whole(parameter, place) ? own.reshape(parameter.shape()) : own;
}

template <class Base>
void Sharded<Base>::begin_update() {
  parallel_.check_over("step");
  if (ScatteredWeights* scattered = parallel_.scattered_weights()) scattered->take_back_all("step");
  gather_.reset();  // what a step that has failed left
  if (is_shared_) gather_.emplace(parallel_);
}

template <class Base>
void Sharded<Base>::end_update() {
  if (gather_) gather_->finish();
  gather_.reset();
}

template <class Base>
std::vector<std::vector<size_t>> Sharded<Base>::update_order() const {
  if (!is_shared_) return Base::update_order();
  const std::vector<Bucket>& buckets = parallel_.buckets();
  std::vector<size_t> bucket_of(parallel_.leaves().size());
  for (size_t bucket = 0; bucket < buckets.size(); ++bucket)
    for (const size_t leaf : buckets[bucket].parameters) bucket_of[leaf] = bucket;
  std::vector<std::vector<size_t>> order(buckets.size());
  for (size_t place = 0; place < leaves_.size(); ++place) order[bucket_of[leaves_[place]]].push_back(place);
  return order;
}

template <class Base>
void Sharded<Base>::updated(size_t part) {
  if (gather_) gather_->start(part);
}

template <class Base>
Tensor Sharded<Base>::owned_gradient(const Tensor& parameter, size_t place) const {
  const Shape shape = owned_part(parameter, place).shape();
  if (parallel_.scatters_gradients()) return parallel_.own_gradient(leaves_[place]).reshape(shape);
  const Tensor whole = Base::owned_gradient(parameter, place);
  const optim::ElementRange range = owned(parameter, place);
  return whole.reshape({whole.numel()}).slice(0, range.begin, range.end).reshape(shape);
}

template <class Base>
double Sharded<Base>::grad_norm() {
  return distributed::grad_norm(parallel_);
}

template <class Base>
void Sharded<Base>::step(double gradient_scale) {
  begin_update();
  Base::step(gradient_scale);
  end_update();
}

template <class Base>
void Sharded<Base>::step_if_finite(const Tensor& gradient_scale, const Tensor& found) {
  begin_update();
  Base::step_if_finite(gradient_scale, found);
  end_update();
}

template <class Base>
void Sharded<Base>::check_gradients(const kernels::GradientCheck& check) {
  if (!parallel_.scatters_gradients()) return Base::check_gradients(check);
  TensorList parameters;
  this->for_each([&](optim::ParameterGroup&, Tensor& parameter, size_t) { parameters.push_back(parameter); });
  distributed::check_gradients(parallel_, parameters, check);
}

template <class Base>
std::vector<size_t> Sharded<Base>::step_temporaries() const {
  return is_shared_ ? gather_bytes(parallel_) : std::vector<size_t>();
}

template <class Base>
std::vector<optim::WideParameter> Sharded<Base>::wide_parameters() {
  std::vector<optim::WideParameter> all = Base::wide_parameters();
  if (!is_shared_) return all;
  const ScatteredWeights* scattered = parallel_.scattered_weights();
  this->for_each([&](optim::ParameterGroup&, Tensor& parameter, size_t place) {
    optim::WideParameter& wide = all[place];
    const bool has_digits = keeps_digits_ && size_of(parameter.dtype()) == 2;
    if (!has_digits && !(scattered && scattered->has(leaves_[place]))) {
      wide = {parameter, {}};
      return;
    }
    wide.part = owned(parameter, place);
    wide.value = wide.value.reshape({wide.part->count()});
    if (wide.remainder.defined()) wide.remainder = wide.remainder.reshape({wide.part->count(), 2});
  });
  return all;
}

template <class Base>
nn::NamedTensors Sharded<Base>::own_state_dict() const {
  if (!is_shared_) return this->state_dict();
  NoGrad guard;
  nn::NamedTensors state;
  this->for_each_state([&](const std::string& name, const typename Base::StateList& list,
                           const Tensor& parameter, size_t place, const Tensor& own) {
    const int64_t begin = this->state_range(list, parameter, owned(parameter, place)).begin;
    state.emplace_back(optim::range_name({name, begin}), own.contiguous().reshape({own.numel()}));
    const Shape whole = list.form(parameter, parameter.shape())->shape;
    state.emplace_back(optim::shape_name(name), Tensor::from(std::vector<int64_t>(whole.begin(), whole.end()),
                                                             {int64_t(whole.size())}));
  });
  for (auto& count : this->counts()) state.push_back(std::move(count));
  return state;
}

// Rank 0 is sent the others' shards.
template <class Base>
Tensor Sharded<Base>::whole_state(const typename Base::StateList& list, const Tensor& parameter, size_t place,
                                  const Tensor& own) const {
  if (!is_shared_) return own;
  NoGrad guard;
  MemoryScope scope(MemoryCategory::optimizer);
  ProcessGroup& group = parallel_.group();
  const typename Base::StateForm form = *list.form(parameter, parameter.shape());
  const Tensor flat = own.contiguous().reshape({own.numel()});
  if (group.rank() > 0) {
    send_to_rank_0(group, flat, list.name);
    return Tensor::hollow({nullptr, form.shape, contiguous_strides(form.shape), form.dtype, own.device()});
  }
  const Tensor whole = Tensor::empty(form.shape, form.dtype, own.device());
  const auto range_of = [&](int rank) {
    return this->state_range(list, parameter, shard(place, rank).range);
  };
  ElementsOnRank0(group, whole.reshape({whole.numel()}), range_of, list.name).receive(flat);
  return whole;
}

template class Sharded<optim::AdamW>;
template class Sharded<optim::Sgd>;

}  // namespace reprise::distributed
