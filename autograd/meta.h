// AutogradMeta: what autograd keeps with a tensor, and the graph edge its gradient flows into.
#pragma once

#include <mutex>
#include <optional>

#include "reprise/autograd/node.h"
#include "reprise/autograd/shadow.h"

namespace reprise::autograd {

struct AutogradMeta final : AutogradSlot {
  bool requires_grad = false;  ///< of a leaf; a tensor with a grad_fn always requires grad
  NodePtr grad_fn;             ///< the node that made this tensor; null for a leaf
  int output_index = 0;        ///< which of its outputs this is

  // Of leaves.
  std::weak_ptr<Node> accumulator;  ///< the AccumulateGrad of this leaf, while a graph uses it
  std::vector<Node::GradHook> hooks;
  struct PostHook {
    uint64_t id;
    std::function<void()> call;
  };
  std::vector<PostHook> post_accumulate_hooks;

  std::vector<Shadow> shadows;  ///< guarded by `mutex`
  bool stands_in = false;       ///< see mark_stand_in
  bool is_parameter = false;    ///< see mark_parameter

  Tensor grad;
  std::optional<DType> grad_dtype;  ///< of `grad`; none: the leaf's own
  bool retains_grad = false;        ///< of a non-leaf: `grad` gets its gradient
  // Two backward passes may meet at one leaf. Summing under create_graph asks for edges, so there are two.
  std::mutex grad_mutex;  ///< guards grad, from before a sum until after it
  std::mutex mutex;       ///< guards accumulator and shadows
};

/// The meta of a tensor; null if autograd knows nothing about it.
std::shared_ptr<AutogradMeta> find_meta(const Tensor& x);
/// The meta, made if need be.
std::shared_ptr<AutogradMeta> require_meta(const Tensor& x);

/// Where the gradient of `x` flows: its grad_fn, or its accumulator if it is a leaf that requires grad.
Edge gradient_edge(const Tensor& x);

/// Makes `x` output `index` of `node`.
void set_grad_fn(const Tensor& x, NodePtr node, int index);

/// A number that no hook has had: removing by number is safe at any time.
uint64_t next_hook_id();

/// Calls `hook` each time a gradient has been added to the leaf `x`. The result removes it.
/// Used by gradient bucketing: the gradient of one backward pass arrives once, already summed.
std::function<void()> register_post_accumulate_hook(const Tensor& x, std::function<void()> hook);

}  // namespace reprise::autograd
