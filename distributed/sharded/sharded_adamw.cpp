#include "reprise/distributed/sharded/sharded_adamw.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/gather_weights.h"
#include "reprise/distributed/sharded/gradient_norm.h"
#include "reprise/nn/optim/state_range.h"

namespace reprise::distributed {

ShardedAdamW::ShardedAdamW(DataParallel& parallel, std::vector<optim::ParameterGroup> groups,
                           const ShardedAdamWOptions& options)
    : AdamW(std::move(groups), options.adamw),
      parallel_(parallel),
      is_shared_(options.stage > 0 && parallel.group().size() > 1),
      master_(options.adamw.master) {
  check(options.stage >= 0 && options.stage <= 3, "ShardedAdamW: stage is ", options.stage,
        "; there are 0 to 3");
  check(options.stage == 3 || options.blocks.empty(), "ShardedAdamW: stage ", options.stage,
        " has weights whole, and no blocks");
  for_each([&](optim::ParameterGroup&, Tensor& parameter, size_t place) {
    const auto leaf =
        std::ranges::find_if(parallel.leaves(), [&](const Tensor& own) { return own.is_same(parameter); });
    check(leaf != parallel.leaves().end(), "ShardedAdamW: parameter ", place, " of shape ", parameter.shape(),
          " is not trained by its DataParallel");
    leaves_.push_back(size_t(leaf - parallel.leaves().begin()));
  });
  if (options.stage == 2) parallel.scatter_gradients();
  if (options.stage == 3) parallel.scatter_weights(options.blocks);
}

const Shard& ShardedAdamW::shard(size_t place, int rank) const {
  return parallel_.shards().of_parameter(leaves_[place], rank);
}

optim::ElementRange ShardedAdamW::owned(const Tensor& parameter, size_t place) const {
  return is_shared_ ? shard(place, parallel_.group().rank()).range : AdamW::owned(parameter, place);
}

Tensor ShardedAdamW::owned_part(const Tensor& parameter, size_t place) const {
  const ScatteredWeights* scattered = parallel_.scattered_weights();
  if (!scattered || !scattered->has(leaves_[place])) return AdamW::owned_part(parameter, place);
  const Tensor& own = scattered->own(leaves_[place]);
  return is_whole(parameter, place) ? own.reshape(parameter.shape()) : own;
}

void ShardedAdamW::begin_update() {
  parallel_.check_over("step");
  if (ScatteredWeights* scattered = parallel_.scattered_weights()) scattered->take_back_all("step");
}

Tensor ShardedAdamW::owned_gradient(const Tensor& parameter, size_t place) const {
  const Shape shape = owned_part(parameter, place).shape();
  if (parallel_.scatters_gradients()) return parallel_.own_gradient(leaves_[place]).reshape(shape);
  const Tensor whole = AdamW::owned_gradient(parameter, place);
  const optim::ElementRange range = owned(parameter, place);
  return whole.reshape({whole.numel()}).slice(0, range.begin, range.end).reshape(shape);
}

double ShardedAdamW::grad_norm() { return distributed::grad_norm(parallel_); }

void ShardedAdamW::step(double gradient_scale) {
  begin_update();
  AdamW::step(gradient_scale);
  if (is_shared_) gather_weights(parallel_);
}

void ShardedAdamW::step_if_finite(const Tensor& gradient_scale, const Tensor& found) {
  begin_update();
  AdamW::step_if_finite(gradient_scale, found);
  if (is_shared_) gather_weights(parallel_);
}

void ShardedAdamW::check_gradients(const kernels::GradientCheck& check) {
  if (!parallel_.scatters_gradients()) return AdamW::check_gradients(check);
  TensorList parameters;
  for_each([&](optim::ParameterGroup&, Tensor& parameter, size_t) { parameters.push_back(parameter); });
  distributed::check_gradients(parallel_, parameters, check);
}

std::vector<size_t> ShardedAdamW::step_temporaries() const {
  return is_shared_ ? gather_bytes(parallel_) : std::vector<size_t>();
}

std::vector<optim::WideParameter> ShardedAdamW::wide_parameters() {
  if (!is_shared_) return AdamW::wide_parameters();
  for_each([&](optim::ParameterGroup&, Tensor& parameter, size_t place) {
    check(size_of(parameter.dtype()) > 2 || master_ == optim::Master::stochastic,
          "ShardedAdamW: averages need the digits beside the 16 bits of parameter ", place,
          ", which ranks share; stage 0 keeps them on each");
  });
  return Optimizer::wide_parameters();
}

nn::NamedTensors ShardedAdamW::own_state_dict() const {
  if (!is_shared_) return state_dict();
  NoGrad guard;
  nn::NamedTensors state;
  for_each_state([&](const std::string& name, const StateList& list, const Tensor& parameter, size_t place,
                     const Tensor& own) {
    const int64_t begin = state_range(list, parameter, owned(parameter, place)).begin;
    state.emplace_back(optim::range_name({name, begin}), own.contiguous().reshape({own.numel()}));
    const Shape whole = list.form(parameter, parameter.shape())->shape;
    state.emplace_back(optim::shape_name(name), Tensor::from(std::vector<int64_t>(whole.begin(), whole.end()),
                                                             {int64_t(whole.size())}));
  });
  for (auto& count : counts()) state.push_back(std::move(count));
  return state;
}

// Rank 0 is sent the others' shards.
Tensor ShardedAdamW::whole_state(const StateList& list, const Tensor& parameter, size_t place,
                                 const Tensor& own) const {
  if (!is_shared_) return own;
  NoGrad guard;
  MemoryScope scope(MemoryCategory::optimizer);
  ProcessGroup& group = parallel_.group();
  const StateForm form = *list.form(parameter, parameter.shape());
  const Tensor flat = own.contiguous().reshape({own.numel()});
  if (group.rank() > 0) {
    if (own.numel() > 0) group.send(flat, 0, list.name).wait();
    return Tensor::hollow({nullptr, form.shape, contiguous_strides(form.shape), form.dtype, own.device()});
  }
  const Tensor whole = Tensor::empty(form.shape, form.dtype, own.device());
  const Tensor all = whole.reshape({whole.numel()});
  std::vector<Work> works;
  for (int rank = 0; rank < group.size(); ++rank) {
    const optim::ElementRange range = state_range(list, parameter, shard(place, rank).range);
    if (range.count() == 0) continue;
    const Tensor part = all.slice(0, range.begin, range.end);
    if (rank == 0)
      part.copy_(flat);
    else
      works.push_back(group.recv(part, rank, list.name));
  }
  for (const Work& work : works) work.wait();
  return whole;
}

}  // namespace reprise::distributed
