// Putting gradients aside and back.
#include "reprise/autograd/recompute/planner/leaf_gradients.h"

#include <utility>

#include "reprise/autograd/recompute/planner/profile_probe.h"

namespace reprise::recompute {

void LeafGradients::op_ran(const char* op_name, const TensorList& inputs, const TensorList&) {
  if (op_name == EntryProbe::name) return;
  for (const Tensor& x : inputs) {
    if (!x.defined() || !x.is_leaf() || !x.requires_grad()) continue;
    auto meta = autograd::find_meta(x);
    if (aside_.contains(meta.get())) continue;
    Aside& aside = aside_[meta.get()];
    aside = {x, x.grad(), std::exchange(meta->hooks, {}), std::exchange(meta->post_accumulate_hooks, {})};
    x.set_grad({});
    if (!as_zeros_) continue;
    const Allocator& memory = allocator(x.device());
    size_t before = memory.stats().held;
    x.set_grad(Tensor::zeros(x.shape(), x.grad_dtype(), x.device()));
    const int64_t bytes = int64_t(memory.stats().held - before);
    zero_bytes_ += bytes;
    if (!aside.gradient.defined()) added_bytes_ += bytes;
  }
}

void LeafGradients::reset() {
  if (as_zeros_) return;
  for (auto& [meta, aside] : aside_) aside.leaf.set_grad({});
}

LeafGradients::~LeafGradients() {
  for (auto& [key, aside] : aside_) {
    auto meta = autograd::find_meta(aside.leaf);
    meta->hooks = std::move(aside.hooks);
    meta->post_accumulate_hooks = std::move(aside.post_hooks);
    aside.leaf.set_grad(aside.gradient);
  }
}

}  // namespace reprise::recompute
