// Saving with version checks and hooks.
#include "reprise/autograd/saved_tensor.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/leaf/substitution.h"
#include "reprise/core/data_observer.h"

namespace reprise::autograd {
namespace {

thread_local SavedTensorHooks* innermost_hooks = nullptr;

// Note [What is saved stays]
// A recorded operation in place puts another value where the tensor was, in all its handles. What a graph keeps is apart from them,
// so that it is the value that was saved. Leaves which gradients are wanted of, and parameters, are what they are in the graph too:
// they refuse such operations, and what they are lent (LentMemory) a graph finds through them. Unless others stand for them now.
Tensor apart(const Tensor& x) {
  if (x.is_fixed() && !find_substitute(x)) return x;
  Tensor own = x.alias();
  own.autograd_slot() = x.autograd_slot();
  return own;
}

Tensor with_edge(const Tensor& x, const Edge& edge) {
  Tensor out = x.alias();  // reads no data: a checkpoint would take the values for another's
  set_grad_fn(out, edge.node, edge.input);
  return out;
}

// What hooks gave back of a leaf, as that leaf is known.
Tensor with_slot(const Tensor& x, const std::shared_ptr<AutogradSlot>& slot) {
  Tensor out = x.alias();
  out.autograd_slot() = slot;
  return out;
}

}  // namespace

SavedTensorHooks::SavedTensorHooks(Pack pack, Unpack unpack)
    : functions_(std::make_shared<std::pair<Pack, Unpack>>(std::move(pack), std::move(unpack))),
      outer_(innermost_hooks) {
  innermost_hooks = this;
}

SavedTensorHooks::~SavedTensorHooks() { innermost_hooks = outer_; }
bool SavedTensorHooks::active() { return innermost_hooks != nullptr; }

SavedTensor::SavedTensor(const Tensor& x, bool is_output, const char* op_name) : is_output_(is_output) {
  if (!x.defined()) return;
  SetDataObserver unseen(nullptr);  // saving is not reading
  auto meta = find_meta(x);
  check(!x.storage()->is_for_inference(), op_name, ": a tensor of shape ", x.shape(),
        " made in InferenceMode cannot be saved for backward; clone() it outside");
  requires_grad_ = x.requires_grad();
  version_ = x.version();
  if (is_output && meta) output_index_ = meta->output_index;
  Tensor own = is_output ? x.alias(x.view()) : apart(x);
  if (!innermost_hooks) {
    tensor_ = std::move(own);
    return;
  }
  hooks_ = innermost_hooks->functions_;
  if (!is_output) edge_ = gradient_edge(x);
  if (!edge_ && meta && meta->is_parameter) frozen_ = meta;
  NoGrad guard;
  SavedTensorHooks* outer = innermost_hooks;
  innermost_hooks = nullptr;  // what a hook computes is not itself packed
  try {
    packed_ = hooks_->first(own.alias());
  } catch (...) {
    innermost_hooks = outer;
    throw;
  }
  innermost_hooks = outer;
  check(x.version() == version_, op_name, ": a pack hook changed the tensor it was given in place, shape ",
        x.shape(), "; it may only read it");
}

Tensor SavedTensor::unpack(const NodePtr& owner, const char* op_name) const {
  if (hooks_) {
    Tensor data = hooks_->second(packed_);
    check(data.defined(), op_name, ": an unpack hook returned no tensor");
    if (is_output_) return requires_grad_ ? with_edge(data, {owner, output_index_}) : data;
    if (edge_) return with_edge(data, edge_);
    return frozen_ ? with_slot(data, frozen_) : data;
  }
  if (!tensor_.defined()) return {};
  check(tensor_.version() == version_, op_name, ": a tensor of shape ", tensor_.shape(),
        " that backward needs was changed in place: it is at version ", tensor_.version(), ", saved at ",
        version_);
  if (is_output_ && requires_grad_) return with_edge(tensor_, {owner, output_index_});
  return tensor_;
}

}  // namespace reprise::autograd
