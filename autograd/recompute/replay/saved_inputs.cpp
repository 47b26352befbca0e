// Saving and rebuilding inputs.
#include "reprise/autograd/recompute/replay/saved_inputs.h"

#include "reprise/core/data_observer.h"

namespace reprise::recompute {
namespace {

// A leaf's owner holds it anyway.
bool is_worth_offloading(const Tensor& x) { return !(x.requires_grad() && x.is_leaf()); }

// In a replay what a region is given are leaves, which stand for results; so do those of a region inside.
bool is_result(const Tensor& x) {
  const auto meta = autograd::find_meta(x);
  return !x.is_leaf() || (meta && meta->stands_in);
}

}  // namespace

SavedInputs::SavedInputs(const TensorList& inputs, const std::vector<std::string>& paths,
                         const std::shared_ptr<Offload>& offload) {
  SetDataObserver unseen(nullptr);  // saving is not reading
  if (offload && !autograd::SavedTensorHooks::active()) offloaded_ = offload->begin_region();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Input input{.label = "checkpoint: input " + (paths[i].empty() ? reprise::detail::join(i) : paths[i]),
                .first = i};
    for (size_t j = 0; j < i && input.first == i; ++j)
      if (inputs[i].defined() && inputs[i].is_same(inputs[j])) input.first = j;
    // Around a region hooks see as many tensors in a replay, where what fn captured is not what it was given.
    if (inputs[i].defined() && (input.first == i || autograd::SavedTensorHooks::active())) {
      if (offloaded_ && is_worth_offloading(inputs[i]))
        input.offloaded = offloaded_->add(inputs[i], input.label);
      else
        input.saved = autograd::SavedTensor(inputs[i], /*is_output=*/false, input.label.c_str());
      input.requires_grad = inputs[i].requires_grad();
      input.is_result = is_result(inputs[i]);
      input.is_parameter = autograd::is_parameter(inputs[i]);
      input.grad_dtype = inputs[i].grad_dtype();
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
    Tensor x = input.offloaded ? offloaded_->fetch(*input.offloaded)
                               : input.saved.unpack(nullptr, input.label.c_str());
    rebuilt.push_back(x.defined() ? x.alias() : x);  // the same memory may stand for more than this input
    if (input.is_parameter) autograd::mark_parameter(rebuilt.back());  // autocast reads both by shadows
    if (!input.requires_grad) continue;
    rebuilt.back().set_requires_grad();
    if (input.is_result) autograd::mark_stand_in(rebuilt.back());
    if (input.grad_dtype != x.dtype()) rebuilt.back().set_grad_dtype(input.grad_dtype);
  }
  return rebuilt;
}

}  // namespace reprise::recompute
