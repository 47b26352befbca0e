// SavedInputs: what a region was given, for its replays.
#pragma once

#include <string>
#include <vector>

#include "reprise/autograd/recompute/offload/offload.h"
#include "reprise/autograd/saved_tensor.h"

namespace reprise::recompute {

/// The inputs of a region, saved like tensors that an operation saves: an enclosing region rebuilds them.
class SavedInputs {
 public:
  /// `offload`: null leaves them where they are. It is left alone where hooks take what is saved.
  SavedInputs(const TensorList& inputs, const std::vector<std::string>& paths,
              const std::shared_ptr<Offload>& offload);

  /// The inputs to play with: leaves outside the graph that require grad where the inputs do. A tensor that
  /// was given twice is one tensor again. Error naming an input that was changed in place.
  TensorList rebuild() const;

  /// What the region has in its store, for more of its tensors to be added; null without one.
  const std::shared_ptr<OffloadedRegion>& offloaded() const { return offloaded_; }

 private:
  struct Input {
    autograd::SavedTensor saved{};
    std::optional<size_t> offloaded{};  ///< instead of `saved`: the index in `offloaded_`
    std::string label;
    bool requires_grad = false, is_result = false, is_parameter = false;
    DType grad_dtype = DType::f32;
    size_t first = 0;  ///< the first input that is the same tensor
  };
  std::vector<Input> inputs_;
  std::shared_ptr<OffloadedRegion> offloaded_;
};

}  // namespace reprise::recompute
