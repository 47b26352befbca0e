// AccumulateGrad: the end of the graph at a leaf. It adds the arriving gradient to the leaf's `grad`.
#pragma once

#include <atomic>

#include "reprise/autograd/graph_task.h"

namespace reprise::autograd {

class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(std::shared_ptr<AutogradMeta> leaf, OutputMeta shape);
  TensorList run(TensorList&& output_grads) override;
  const char* op_name() const override { return "accumulate_grad"; }
  AutogradMeta& leaf() { return *leaf_; }
  const std::shared_ptr<AutogradMeta>& shared_leaf() const { return leaf_; }
  /// See GraphTask::sum_at_leaf: what of it the leaf knows.
  GraphTask::LeafSum sum();
  /// The leaf was given data of another form: the gradient of what it was before fits it no more.
  void retire() { retired_ = true; }

 private:
  void add(Tensor incoming);
  std::shared_ptr<AutogradMeta> leaf_;
  std::atomic<bool> retired_{false};
};

}  // namespace reprise::autograd
