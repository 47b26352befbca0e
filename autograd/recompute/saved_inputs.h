// What a region keeps from its call: its inputs.
#pragma once

#include <string>
#include <vector>

#include "reprise/autograd/saved_tensor.h"

namespace reprise::recompute {

/// The inputs of a region, saved like tensors that an operation saves: an enclosing region rebuilds them.
class SavedInputs {
 public:
  SavedInputs(const TensorList& inputs, const std::vector<std::string>& paths);

  /// The inputs to play with: leaves outside the graph that require grad where the inputs do. A tensor that
  /// was given twice is one tensor again. Error naming an input that was changed in place.
  TensorList rebuild() const;

 private:
  struct Input {
    autograd::SavedTensor saved{};
    std::string label;
    bool requires_grad = false;
    size_t first = 0;  ///< the first input that is the same tensor
  };
  std::vector<Input> inputs_;
};

}  // namespace reprise::recompute
