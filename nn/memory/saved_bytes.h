// SavedBytes: what a graph holds for backward, by layer, operation and dtype.
#pragma once

#include <memory>
#include <unordered_map>

#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/saved_tensor.h"

namespace reprise::nn {

/// What one operation of one layer saved for backward in one dtype.
struct SavedCell {
  std::string layer;         ///< the OpScope; empty outside all
  std::string op;            ///< its name: "linear"
  DType dtype = DType::f32;  ///< of what it saved
  size_t bytes = 0;          ///< of storages, each counted once
};

/// Counts while it lives what operations save, each storage once, for the first that saves it; without
/// `parameters` and without integers.
class SavedBytes final : public autograd::OpObserver {
 public:
  explicit SavedBytes(const TensorList& parameters);  ///< begins to count
  /// For the engine: what is saved next is this operation's.
  void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) override;
  /// In the order in which they first saved something.
  const std::vector<SavedCell>& cells() const { return cells_; }

 private:
  void saved(const Tensor& x);

  std::string layer_, op_;
  std::unordered_map<const Storage*, std::weak_ptr<Storage>> seen_;  // weak: an address is not used again
  std::vector<SavedCell> cells_;
  autograd::SavedTensorHooks hooks_;
};

}  // namespace reprise::nn
