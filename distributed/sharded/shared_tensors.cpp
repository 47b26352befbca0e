#include "reprise/distributed/sharded/shared_tensors.h"

#include <algorithm>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/elements_on_rank_0.h"

namespace reprise::distributed {
namespace {

constexpr int64_t none = -1;  // rank 0 wants no more

}  // namespace

SharedTensors::SharedTensors(DataParallel& parallel, const optim::Ema* ema) : parallel_(parallel) {
  const ScatteredWeights* scattered = parallel.scattered_weights();
  std::vector<Entry> averages;
  for (const auto& [name, x] : parallel.model().named_parameters()) {
    if (const auto part = scattered && x.is_hollow() ? scattered->part_of(x) : std::nullopt)
      entries_.push_back({name, x, part->elements, part->parameter});
    const auto same = [&](const Tensor& leaf) { return leaf.is_same(x); };
    const auto leaf = std::ranges::find_if(parallel.leaves(), same);
    if (leaf == parallel.leaves().end()) continue;
    const auto place = size_t(leaf - parallel.leaves().begin());
    if (const Tensor part = ema ? ema->part_of(x) : Tensor(); part.defined())
      averages.push_back({"the average of " + name, ema->average_of(x), part, place});
  }
  std::ranges::move(averages, std::back_inserter(entries_));
}

nn::NamedTensors SharedTensors::own() const {
  nn::NamedTensors own;
  for (const Entry& entry : entries_) own.emplace_back(entry.name, entry.own);
  return own;
}

void SharedTensors::read_on_rank_0(const std::function<void(const WholeOf& whole)>& read) const {
  ProcessGroup& group = parallel_.group();
  if (group.rank() > 0) {
    if (!entries_.empty())
      group.while_others_wait("send", [&] {
        for (int64_t entry = asked(); entry != none; entry = asked()) send(size_t(entry));
      });
    return;
  }
  try {
    read([this](const Tensor& x) { return whole(x); });
  } catch (const std::exception&) {
    try {
      ask(none);
    } catch (const std::exception&) {}  // of a world that has ended: the cause is what is caught
    throw;
  }
  ask(none);
}

void SharedTensors::ask(int64_t entry) const {
  if (entries_.empty()) return;
  parallel_.group().while_others_wait("ask", [&] {
    asked_.data<int64_t>()[0] = entry;
    parallel_.group().broadcast(asked_, 0, "what rank 0 reads").wait();
  });
}

int64_t SharedTensors::asked() const {
  parallel_.group().broadcast(asked_, 0, "what rank 0 reads").wait();
  return asked_.data<int64_t>()[0];
}

void SharedTensors::send(size_t entry) const {
  NoGrad guard;
  send_to_rank_0(parallel_.group(), entries_[entry].own, entries_[entry].name);
}

Tensor SharedTensors::gather(size_t entry) const {
  NoGrad guard;
  const auto& [name, hollow, own, parameter] = entries_[entry];
  MemoryScope scope(MemoryCategory::workspace);
  const Tensor all = Tensor::empty(hollow.shape(), hollow.dtype(), hollow.device());
  const auto range_of = [&](int rank) { return parallel_.shards().of_parameter(parameter, rank).range; };
  ElementsOnRank0 elements(parallel_.group(), all.reshape({all.numel()}), range_of, name);
  ask(int64_t(entry));  // once there is room
  parallel_.group().while_others_wait("receive", [&] { elements.receive(own); });
  return all;
}

Tensor SharedTensors::whole(const Tensor& x) const {
  if (!x.is_hollow()) return x;
  const auto found =
      std::ranges::find_if(entries_, [&](const Entry& entry) { return entry.hollow.is_same(x); });
  check(found != entries_.end(), "SharedTensors: a hollow tensor ", x.dtype(), x.shape(),
        " is neither a weight nor an average that ranks share");
  return gather(size_t(found - entries_.begin()));
}

}  // namespace reprise::distributed
