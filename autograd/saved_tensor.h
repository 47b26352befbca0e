// SavedTensor: a tensor kept for backward. It remembers the version it saw, and goes through the pack and
// unpack hooks of the scope it was saved in: the seam that recompute and offload use.
#pragma once

#include <any>
#include <functional>

#include "reprise/autograd/meta.h"

namespace reprise::autograd {

/// While it lives, tensors saved for backward on this thread become `pack(tensor)`, and backward reads
/// `unpack(packed)`. The innermost scope wins. Error if `pack` changes its tensor in place: it is the one
/// that the program computes with. (PyTorch: torch.autograd.graph.saved_tensors_hooks.)
class SavedTensorHooks {
 public:
  using Pack = std::function<std::any(const Tensor&)>;    ///< its argument is outside of the graph
  using Unpack = std::function<Tensor(const std::any&)>;  ///< Error if it gives an undefined tensor
  SavedTensorHooks(Pack pack, Unpack unpack);             ///< kept by each tensor that was saved under them
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;
  SavedTensorHooks& operator=(const SavedTensorHooks&) = delete;
  /// True if a hook scope is active on this thread; saved tensors then belong to it.
  static bool active();

 private:
  friend class SavedTensor;
  std::shared_ptr<const std::pair<Pack, Unpack>> functions_;
  SavedTensorHooks* outer_;
};

/// A tensor that a node keeps for backward, or what hooks made of it.
class SavedTensor {
 public:
  SavedTensor() = default;
  /// Keeps `x`, which op `op_name` needs in backward. `is_output`: x is an output of the node that saves it;
  /// then the data alone is held, so that node and tensor do not keep each other alive.
  SavedTensor(const Tensor& x, bool is_output, const char* op_name);

  /// The tensor with its place in the graph; `owner` is the node that saved it. Error if the data was changed
  /// in place since. Undefined if an undefined tensor was saved.
  Tensor unpack(const NodePtr& owner, const char* op_name) const;
  /// Whether it went through hooks.
  bool is_packed() const { return hooks_ != nullptr; }

 private:
  Tensor tensor_;  // without hooks, the tensor itself; an alias for outputs
  std::shared_ptr<const std::pair<SavedTensorHooks::Pack, SavedTensorHooks::Unpack>> hooks_;
  std::any packed_;
  bool is_output_ = false;
  bool requires_grad_ = false;
  int output_index_ = 0;  // of an output
  Edge edge_;             // of an input that went through hooks: its place in the graph
  // ... of a parameter that wants no gradient: its 16-bit values are kept there.
  std::shared_ptr<AutogradSlot> frozen_;
  uint64_t version_ = 0;
};

}  // namespace reprise::autograd
