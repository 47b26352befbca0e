// AccumulateGrad: the end of the graph at a leaf. It adds the arriving gradient to the leaf's `grad`.
#pragma once

#include "reprise/autograd/meta.h"

namespace reprise::autograd {

class AccumulateGrad final : public Node {
 public:
  AccumulateGrad(std::shared_ptr<AutogradMeta> leaf, OutputMeta shape);
  TensorList run(TensorList&& output_grads) override;
  const char* op_name() const override { return "accumulate_grad"; }
  AutogradMeta& leaf() { return *leaf_; }

 private:
  Tensor leaf_gradient() const;
  std::shared_ptr<AutogradMeta> leaf_;
};

}  // namespace reprise::autograd
