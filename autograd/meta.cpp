// Reading and making the autograd slot of a tensor.
#include "reprise/autograd/meta.h"

#include <atomic>

#include "reprise/autograd/accumulate_grad.h"

namespace reprise::autograd {

std::shared_ptr<AutogradMeta> find_meta(const Tensor& x) {
  return std::static_pointer_cast<AutogradMeta>(x.autograd_slot());
}

std::shared_ptr<AutogradMeta> require_meta(const Tensor& x) {
  if (!x.autograd_slot()) x.autograd_slot() = std::make_shared<AutogradMeta>();
  return find_meta(x);
}

Edge gradient_edge(const Tensor& x) {
  if (!x.defined()) return {};
  auto meta = find_meta(x);
  if (!meta) return {};
  if (meta->grad_fn) return {meta->grad_fn, meta->output_index};
  if (!meta->requires_grad) return {};
  std::lock_guard lock(meta->mutex);
  NodePtr accumulator = meta->accumulator.lock();
  if (!accumulator) {
    accumulator = make_node<AccumulateGrad>(
        meta, OutputMeta{x.shape(), meta->grad_dtype.value_or(x.dtype()), x.device()});
    meta->accumulator = accumulator;
  }
  return {accumulator, 0};
}

void set_grad_fn(const Tensor& x, NodePtr node, int index) {
  auto meta = require_meta(x);
  meta->grad_fn = std::move(node);
  meta->output_index = index;
  meta->retains_grad = false;
}

uint64_t next_hook_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::function<void()> register_post_accumulate_hook(const Tensor& x, std::function<void()> hook) {
  check(x.is_leaf() && x.requires_grad(), "register_post_accumulate_hook: needs a leaf that requires grad");
  auto meta = require_meta(x);
  uint64_t id = next_hook_id();
  meta->post_accumulate_hooks.push_back({id, std::move(hook)});
  return [weak = std::weak_ptr(meta), id] {
    if (auto alive = weak.lock())
      std::erase_if(alive->post_accumulate_hooks, [id](auto& h) { return h.id == id; });
  };
}

}  // namespace reprise::autograd
