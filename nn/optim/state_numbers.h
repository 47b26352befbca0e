// Numbers that an optimizer's state holds beside its tensors.
#pragma once

#include <algorithm>
#include <vector>

#include "reprise/nn/module.h"

namespace reprise::optim {

/// Takes the numbers under `name` out of a state, of which there are `count`, one for each of `whose`. Error naming `op` if they are not
/// there.
inline std::vector<int64_t> take_numbers(const char* op, nn::NamedTensors& state, const char* name,
                                         int64_t count, const char* whose) {
  const auto found =
      std::find_if(state.begin(), state.end(), [&](const auto& entry) { return entry.first == name; });
  check(found != state.end() && found->second.defined() && found->second.dtype() == DType::i64 &&
            found->second.shape() == Shape{count},
        op, ": the state has no \"", name, "\" of its ", count, whose);
  std::vector<int64_t> numbers = found->second.to_vector<int64_t>();
  state.erase(found);
  return numbers;
}

/// Takes "updates", of each of `parameters`, out of a state. Error naming `op` if they are not there, or one is not in
/// [0, most].
inline std::vector<int64_t> take_updates(const char* op, nn::NamedTensors& state, size_t parameters,
                                         int64_t most) {
  std::vector<int64_t> updates = take_numbers(op, state, "updates", int64_t(parameters), " parameters");
  for (size_t place = 0; place < parameters; ++place)
    check(updates[place] >= 0 && updates[place] <= most, op, ": the state has ", updates[place],
          " \"updates\" of parameter ", place);
  return updates;
}

}  // namespace reprise::optim
