#include "reprise/train/ranks/same_state.h"

#include <algorithm>

#include "reprise/distributed/data_parallel/same_on_ranks.h"
#include "reprise/distributed/sharded/sharded.h"
#include "reprise/nn/optim/state_range.h"

namespace reprise::train {

uint32_t weights_crc(const nn::Module& model, const distributed::WholeOf& whole) {
  uint32_t crc = 0;
  for (const auto& [name, x] : model.state_dict()) crc = distributed::checksum_of(whole(x), crc);
  return crc;
}

bool is_shared(optim::Optimizer& optimizer) {
  return std::ranges::any_of(optimizer.parts(), [](const auto& part) {
    const auto* shared = dynamic_cast<const distributed::SharedOptimizer*>(part.second);
    return shared && shared->is_shared();
  });
}

nn::NamedTensors whole_state(const optim::Optimizer& optimizer) {
  nn::NamedTensors state = optimizer.own_state_dict();
  std::erase_if(state, [](const auto& entry) { return optim::range_in(entry.first).has_value(); });
  return state;
}

void check_same_state(distributed::ProcessGroup& group, int64_t step, const nn::Module& model,
                      const nn::NamedTensors& optimizer_state, const optim::GradScaler* scaler) {
  if (group.size() == 1) return;
  nn::NamedTensors all = model.state_dict();
  auto add = [&](const std::string& of, const nn::NamedTensors& state) {
    for (const auto& [name, x] : state) all.emplace_back(of + name, x);
  };
  add("the optimizer's ", optimizer_state);
  if (scaler) add("the loss scale's ", scaler->state_dict());
  distributed::check_same_on_ranks(group, all, detail::join("after step ", step));
}

}  // namespace reprise::train
