// Gradient accumulation at leaves.
#include "reprise/autograd/accumulate_grad.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/kernels/elementwise.h"

namespace reprise::autograd {

AccumulateGrad::AccumulateGrad(std::shared_ptr<AutogradMeta> leaf, OutputMeta shape)
    : Node(UINT64_MAX), leaf_(std::move(leaf)) {
  outputs_ = {shape};
}

TensorList AccumulateGrad::run(TensorList&& output_grads) {
  Tensor incoming = std::move(output_grads[0]);
  output_grads.clear();
  // create_graph: a gradient of the leaf's own, part of a graph; made before the lock, which recording may
  // take.
  if (grad_mode_enabled()) {
    Tensor before = leaf_gradient();
    incoming = before.defined() ? before + incoming : clone(incoming);
  }
  {
    std::lock_guard lock(leaf_->mutex);
    Tensor& grad = leaf_->grad;
    if (grad_mode_enabled()) {
      grad = std::move(incoming);
      grad.storage()->set_category(MemoryCategory::gradients);
    } else if (!grad.defined()) {
      bool ours = incoming.is_sole_owner() && incoming.is_contiguous();
      grad = ours ? std::move(incoming) : incoming.detach().clone();
      grad.storage()->set_category(MemoryCategory::gradients);
    } else {
      kernels::add_scaled(current_stream(grad.device()), incoming, 1.0, grad);
      grad.storage()->bump_version();
    }
  }
  for (auto hook : std::vector(leaf_->post_accumulate_hooks)) hook.call();  // a hook may remove itself
  return {};
}

Tensor AccumulateGrad::leaf_gradient() const {
  std::lock_guard lock(leaf_->mutex);
  return leaf_->grad;
}

}  // namespace reprise::autograd
