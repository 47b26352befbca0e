// Saving and rebuilding inputs.
#include "reprise/autograd/recompute/saved_inputs.h"

namespace reprise::recompute {

SavedInputs::SavedInputs(const TensorList& inputs, const std::vector<std::string>& paths) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input input{.label = "checkpoint: input " + (paths[i].empty() ? reprise::detail::join(i) : paths[i]),
                .first = i};
    for (size_t j = 0; j < i && input.first == i; ++j)
      if (inputs[i] && inputs[i].is_same(inputs[j])) input.first = j;
    if (inputs[i] && input.first == i) {
      input.saved = autograd::SavedTensor(inputs[i], /*is_output=*/false, input.label.c_str());
      input.requires_grad = inputs[i].requires_grad();
    }
    inputs_.push_back(std::move(input));
  }
}

TensorList SavedInputs::rebuild() const {
  TensorList rebuilt;
  for (const Input& input : inputs_) {
    if (input.first < rebuilt.size()) {
      rebuilt.push_back(rebuilt[input.first]);
      continue;
    }
    Tensor x = input.saved.unpack(nullptr, input.label.c_str());
    rebuilt.push_back(x ? x.detach() : x);
    if (input.requires_grad) rebuilt.back().set_requires_grad();
  }
  return rebuilt;
}

}  // namespace reprise::recompute
