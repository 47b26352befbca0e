// Gradient accumulation at leaves.
#include "reprise/autograd/accumulate_grad.h"

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/overlap.h"
#include "reprise/kernels/elementwise/elementwise.h"

namespace reprise::autograd {

AccumulateGrad::AccumulateGrad(std::shared_ptr<AutogradMeta> leaf, OutputMeta shape)
    : Node(UINT64_MAX), leaf_(std::move(leaf)) {
  outputs_ = {shape};
}

TensorList AccumulateGrad::run(TensorList&& output_grads) {
  Tensor incoming = std::move(output_grads[0]);
  output_grads.clear();
  if (!leaf_->requires_grad) return {};  // frozen since forward
  check(!retired_,
        "backward: set_data or set_grad_dtype gave a leaf another shape, dtype or device than the ",
        outputs_[0].dtype, outputs_[0].shape, " that forward used; its gradient does not fit");
  const GraphTask* pass = GraphTask::running();
  if (pass && pass->has_added_to(*this))
    incoming.storage()->bump_version();
  else
    add(std::move(incoming));
  for (auto hook : std::vector(leaf_->post_accumulate_hooks)) hook.call();  // a hook may remove itself
  return {};
}

GraphTask::LeafSum AccumulateGrad::sum() {
  if (!leaf_->requires_grad || retired_ || !leaf_->hooks.empty() || !leaf_->post_accumulate_hooks.empty())
    return {};
  std::unique_lock lock(leaf_->grad_mutex);
  const Tensor& grad = leaf_->grad;
  const bool fits = grad.defined() && !grad.requires_grad() && grad.is_contiguous() &&
                    grad.dtype() == outputs_[0].dtype && grad.device() == outputs_[0].device;
  return fits ? GraphTask::LeafSum{std::move(lock), grad} : GraphTask::LeafSum();
}

void AccumulateGrad::add(Tensor incoming) {
  Tensor before;  // goes after the lock
  std::lock_guard lock(leaf_->grad_mutex);
  Tensor& grad = leaf_->grad;
  before = grad;
  if (grad_mode_enabled()) {  // create_graph: a gradient of the leaf's own, part of a graph
    grad = before.defined() ? before + incoming : clone(incoming);
  } else if (!before.defined()) {
    bool ours = incoming.is_sole_owner() && incoming.is_contiguous();
    grad = ours ? std::move(incoming) : incoming.detach().clone();
  } else if (overlaps_itself(before)) {  // an expanded one, from set_grad
    grad = before + incoming;
  } else {
    kernels::add_scaled(current_stream(before.device()), incoming, 1.0, before);
    before.storage()->bump_version();
    return;
  }
  grad.storage()->set_category(MemoryCategory::gradients);
}

}  // namespace reprise::autograd
