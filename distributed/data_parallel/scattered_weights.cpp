#include "reprise/distributed/data_parallel/scattered_weights.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/recompute/update_state.h"
#include "reprise/core/no_compute.h"

namespace reprise::distributed {
namespace {

// What is done to weights is no operation of the model: neither recorded nor seen by regions.
struct Unseen {
  autograd::HideOpObservers observers{};
  NoGrad recording{};
};

}  // namespace

std::pair<std::vector<WeightUnit>, std::vector<Bucket>> plan_units(std::vector<Block> blocks,
                                                                   const TensorList& leaves,
                                                                   const BucketOptions& options) {
  std::vector<bool> is_in_block(leaves.size());
  std::vector<Bucket> buckets;
  std::vector<WeightUnit> units(blocks.size());
  constexpr int64_t whole = std::numeric_limits<int64_t>::max();
  for (size_t u = blocks.size(); u-- > 0;) {
    for (size_t i : blocks[u].parameters) is_in_block[i] = true;
    for (Bucket& bucket : plan_buckets(leaves, {whole, whole}, blocks[u].parameters)) {
      units[u].buckets.push_back(buckets.size());
      buckets.push_back(std::move(bucket));
    }
    units[u].block = std::move(blocks[u]);
  }
  std::vector<size_t> rest;
  for (size_t i = 0; i < leaves.size(); ++i)
    if (!is_in_block[i]) rest.push_back(i);
  for (Bucket& bucket : plan_buckets(leaves, options, rest)) buckets.push_back(std::move(bucket));
  return {std::move(units), std::move(buckets)};
}

ScatteredWeights::ScatteredWeights(std::vector<WeightUnit> units, ProcessGroup& group,
                                   const TensorList& leaves, const std::vector<Bucket>& buckets,
                                   const Shards& shards)
    : group_(group), buckets_(buckets), shards_(shards), weights_{leaves}, unit_of_(leaves.size()) {
  for (WeightUnit& unit : units) {
    for (size_t i : unit.block.parameters) unit_of_[i] = states_.size();
    add(std::move(unit), weights_);
  }
}

void ScatteredWeights::add(WeightUnit unit, Tensors& tensors) {
  const Unseen guard;
  MemoryScope scope(MemoryCategory::parameters);
  auto& [whole, own, lent] = tensors;
  for (size_t i : unit.block.parameters) {
    const optim::ElementRange& range = shards_.of_parameter(i, group_.rank()).range;
    own[i] = whole[i].detach().reshape({whole[i].numel()}).slice(0, range.begin, range.end).clone();
  }
  for (size_t i : unit.block.parameters) lent[i].emplace(whole[i]);
  states_.push_back({std::move(unit), tensors});
}

void ScatteredWeights::add_followers(nn::Module& model, TensorList followers) {
  invariant(followers_.whole.empty(), "add_followers: there are some already");
  take_back_all("add_followers");
  followers_ = Tensors{std::move(followers)};
  const size_t units = states_.size();
  for (size_t u = 0; u < units; ++u) {
    WeightUnit unit = states_[u].unit;
    std::vector<size_t>& places = unit.block.parameters;
    std::erase_if(places, [&](size_t i) { return !followers_.whole[i].defined(); });
    if (places.empty()) continue;
    std::erase_if(unit.buckets, [&](size_t b) {
      return std::ranges::none_of(buckets_[b].parameters,
                                  [&](size_t i) { return followers_.whole[i].defined(); });
    });
    TensorList tensors;
    for (const size_t i : places) tensors.push_back(followers_.whole[i]);
    std::tie(unit.block.name, unit.block.layer) = layer_with(model, tensors);
    add(std::move(unit), followers_);
    add_hooks(states_.size() - 1);
  }
}

std::optional<ScatteredWeights::Part> ScatteredWeights::part_of(const Tensor& x) const {
  for (const Tensors* tensors : {&weights_, &followers_})
    for (size_t i = 0; i < tensors->whole.size(); ++i)
      if (tensors->own[i].defined() && tensors->whole[i].is_same(x)) return Part{i, tensors->own[i]};
  return {};
}

ScatteredWeights::~ScatteredWeights() {
  for (State& state : states_)
    for (const auto& remove : state.remove_hooks) remove();
}

void ScatteredWeights::add_hooks() {
  for (size_t u = 0; u < states_.size(); ++u) add_hooks(u);
}

void ScatteredWeights::add_hooks(size_t u) {
  nn::Layer& layer = *states_[u].unit.block.layer;
  states_[u].remove_hooks = {layer.register_forward_pre_hook([this, u](const Tensor&) {
                               enter(u, recompute::is_replaying() ? Pass::backward : Pass::forward);
                               return Tensor();
                             }),
                             layer.register_forward_hook([this, u](const Tensor&, const Tensor& y) {
                               leave(u, y);
                               return Tensor();
                             })};
}

void ScatteredWeights::enter(size_t u, Pass pass) {
  if (holds_ > 0) return;  // a rank may then run blocks alone
  const Unseen guard;
  if (asks_) {
    while (!states_[u].is_whole) gather_asked(u);
    return;
  }
  make_whole(u);
  fetch_after({u, pass});
}

// Which one that is must not depend on what this rank alone runs.
void ScatteredWeights::fetch_after(Event now) {
  if (last_ == now) return;
  if (last_) follows_[*last_] = now;
  last_ = now;
  const auto next = follows_.find(now);
  if (next != follows_.end() && (asks_ || !states_[next->second.first].is_whole)) fetch(next->second.first);
}

// Gathers the unit furthest on that a rank is about to run, which this one has whole then if it wants it; false if none runs any.
bool ScatteredWeights::gather_asked(std::optional<size_t> wanted) {
  const int64_t own = wanted ? int64_t(*wanted) + 1 : 0;
  const Tensor furthest = Tensor::from(std::vector<int64_t>{own}, {1});
  group_.all_reduce(furthest, ReduceOp::max, "block that is run").wait();
  // Imagined ranks run what this one does: nothing has arrived from them.
  const int64_t asked = NoCompute::is_on() ? own : furthest.data<int64_t>()[0];
  if (asked == 0) return false;
  const auto u = size_t(asked - 1);
  fetch(u);
  wanted == u ? make_whole(u) : drop_coming();
  fetch_after({u, Pass::asked});
  return true;
}

// Behind a call. In a replay backward comes next.
void ScatteredWeights::leave(size_t u, const Tensor& result) {
  if (recompute::is_replaying() || holds_ > 0) return;
  if (result.requires_grad())
    result.register_hook([weak = weak_from_this(), u](const Tensor&) {
      if (auto alive = weak.lock()) alive->enter(u, Pass::backward);
      return Tensor();
    });
  const Unseen guard;
  const auto next = follows_.find({u, Pass::forward});
  if (asks_ || next == follows_.end() || next->second.first != u) take_back(u);
}

void ScatteredWeights::fetch(size_t u) {
  if (coming_unit_ == u) return;
  drop_coming();
  coming_unit_ = u;
  const State& state = states_[u];
  const bool looks = &state.tensors == &weights_ && !asked_parts_.empty();
  for (size_t b : state.unit.buckets)
    coming_.emplace_back(group_, bucket(b, state), [&](const Shard& shard) {
      const size_t i = shard.parameter;
      return (looks && asked_parts_[i].defined() ? asked_parts_[i] : state.tensors.own[i]).view();
    });
}

void ScatteredWeights::make_whole(size_t u) {
  State& state = states_[u];
  if (state.is_whole) return;
  fetch(u);
  auto& [whole, own, lent] = state.tensors;
  for (Gathering& gathering : coming_)
    gathering.finish(
        [&lent = lent](const Shard& shard) {
          return elements_of(lent[shard.parameter]->place().view(), shard.range);
        },
        /*with_own=*/true);
  coming_.clear();
  coming_unit_.reset();
  state.versions.clear();
  for (size_t i : state.unit.block.parameters) {
    lent[i]->lend();
    state.versions.push_back(whole[i].version());
  }
  state.is_whole = true;
}

void ScatteredWeights::take_back(size_t u) {
  State& state = states_[u];
  if (!state.is_whole || holds_ > 0) return;
  keep_changes(state);
  for (size_t i : state.unit.block.parameters) state.tensors.lent[i]->take_back();
  state.is_whole = false;
}

// Whoever has changed a weight while it was whole has changed it on all ranks.
void ScatteredWeights::keep_changes(State& state) {
  auto& [whole, own, lent] = state.tensors;
  for (size_t k = 0; k < state.versions.size(); ++k) {
    const size_t i = state.unit.block.parameters[k];
    if (whole[i].version() == state.versions[k]) continue;
    const optim::ElementRange& range = shards_.of_parameter(i, group_.rank()).range;
    own[i].copy_(whole[i].detach().reshape({whole[i].numel()}).slice(0, range.begin, range.end));
    state.versions[k] = whole[i].version();
  }
}

void ScatteredWeights::drop_coming() {
  for (Gathering& gathering : coming_) gathering.drop();
  coming_.clear();
  coming_unit_.reset();
}

void ScatteredWeights::begin_pass() {
  for (State& state : states_) state.not_ready = state.unit.block.parameters.size();
}

void ScatteredWeights::mark_ready(size_t i) {
  if (!has(i)) return;
  const Unseen guard;
  if (--states_[unit_of_[i]].not_ready == 0) take_back(unit_of_[i]);
}

void ScatteredWeights::end_pass() {
  const Unseen guard;
  for (size_t u = 0; u < states_.size(); ++u) take_back(u);
  autograd::LentMemory::free_unviewed();
  last_.reset();
}

void ScatteredWeights::hold_all() {
  const Unseen guard;
  ++holds_;
  drop_coming();
  last_.reset();
  for (size_t u = 0; u < states_.size(); ++u) make_whole(u);
}

void ScatteredWeights::release_all() {
  const Unseen guard;
  if (--holds_ == 0)
    for (size_t u = 0; u < states_.size(); ++u) take_back(u);
}

void ScatteredWeights::begin_asking(TensorList parts) {
  take_back_all("begin_asking");
  asks_ = true;
  asked_parts_ = std::move(parts);
}

void ScatteredWeights::gather_for_others() {
  if (!asks_ || holds_ > 0) return;
  const Unseen guard;
  while (gather_asked({})) {}
}

void ScatteredWeights::end_asking() {
  try {
    drop_coming();
  } catch (const std::exception&) {  // of a world that has ended, which the next call tells
    coming_.clear();
    coming_unit_.reset();
  }
  const Unseen guard;
  for (size_t u = 0; u < states_.size(); ++u) take_back(u);  // what was thrown in a block has left it whole
  last_.reset();
  asks_ = false;
  asked_parts_.clear();
}

void ScatteredWeights::take_back_all(const char* why) {
  check(holds_ == 0, why, ": weights that ranks share are held whole; WholeWeights ends first");
  const Unseen guard;
  drop_coming();
  for (size_t u = 0; u < states_.size(); ++u) take_back(u);
  last_.reset();
}

}  // namespace reprise::distributed
