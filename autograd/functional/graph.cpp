#include "reprise/autograd/functional/graph.h"

#include <memory>
#include <unordered_set>
#include <vector>

#include "reprise/autograd/accumulate_grad.h"
#include "reprise/autograd/pass_local.h"
#include "reprise/core/error.h"

namespace reprise::autograd {
namespace {

// The gradients of several tensors within one pass.
struct Arrived {
  TensorList gradients;
  size_t missing = 0;
  bool has_begun = false;
};

struct MultiHook {
  size_t count;
  std::function<void(const TensorList&)> call;
  PassLocal<Arrived> arrived;

  void take(size_t place, const Tensor& gradient) {
    Arrived& pass = *arrived.get();
    if (!std::exchange(pass.has_begun, true)) {
      pass.gradients.resize(count);
      pass.missing = count;
    }
    if (!pass.gradients[place].defined()) --pass.missing;
    pass.gradients[place] = gradient;
    if (pass.missing == 0) call(std::exchange(pass, {}).gradients);
  }
};

struct AnyHook {
  std::function<void(const Tensor&)> call;
  PassLocal<bool> was_called;

  void take(size_t, const Tensor& gradient) {
    if (!std::exchange(*was_called.get(), true)) call(gradient);
  }
};

// `hook` has `take(place, gradient)` and is not null.
template <class Hook>
std::function<void()> hook_all(const char* name, const TensorList& tensors, std::shared_ptr<Hook> hook) {
  check(!tensors.empty() && hook->call, name, ": ",
        tensors.empty() ? "no tensors are given" : "the hook is empty");
  for (const Tensor& x : tensors)
    check(x.defined() && x.requires_grad(), name, ": a tensor ",
          x.defined() ? "does not require grad" : "is undefined");
  std::vector<std::function<void()>> removals;
  for (size_t i = 0; i < tensors.size(); ++i)
    removals.push_back(tensors[i].register_hook([hook, i](const Tensor& gradient) {
      hook->take(i, gradient);
      return Tensor();
    }));
  return [removals = std::move(removals)] {
    for (const auto& remove : removals) remove();
  };
}

std::string line_of(const Node& node) {
  if (!dynamic_cast<const AccumulateGrad*>(&node)) return node.op_name();
  const OutputMeta& leaf = node.outputs().front();
  return reprise::detail::join("leaf ", leaf.shape, ' ', leaf.dtype);
}

std::function<void()> add_hook(const char* name, const Tensor& x, Node::NodeHook hook) {
  check(hook.before || hook.behind, name, ": the hook is empty");
  const auto meta = x.defined() ? find_meta(x) : nullptr;
  check(meta && meta->grad_fn, name, ": no recorded operation made the tensor");
  hook.id = next_hook_id();
  meta->grad_fn->node_hooks().push_back(std::move(hook));
  return [weak = std::weak_ptr(meta->grad_fn), id = meta->grad_fn->node_hooks().back().id] {
    if (auto node = weak.lock())
      std::erase_if(node->node_hooks(), [id](const auto& h) { return h.id == id; });
  };
}

struct Place {
  const Node* node;
  int depth;
};

}  // namespace

std::string grad_fn_name(const Tensor& x) {
  const auto meta = find_meta(x);
  return meta && meta->grad_fn ? meta->grad_fn->op_name() : "";
}

std::string graph_to_string(const Tensor& x, int depth) {
  const Edge first = x.defined() && x.requires_grad() ? gradient_edge(x) : Edge{};
  check(bool(first), "graph_to_string: the tensor requires no gradient: no graph holds it");
  std::unordered_set<const Node*> written;
  std::vector<Place> next{{first.node.get(), 0}};  // no recursion: graphs are as deep as programs are long
  TextStream text;
  while (!next.empty()) {
    const auto [node, steps] = next.back();
    next.pop_back();
    text << std::string(2 * size_t(steps), ' ');
    if (steps >= depth) {
      text << "...\n";
      continue;
    }
    const bool is_new = written.insert(node).second;
    text << line_of(*node) << (is_new || node->edges().empty() ? "\n" : " (above)\n");
    if (!is_new) continue;
    for (auto edge = node->edges().rbegin(); edge != node->edges().rend(); ++edge)
      if (*edge) next.push_back({edge->node.get(), steps + 1});
  }
  return text.str();
}

std::function<void()> register_node_prehook(const Tensor& x, NodePrehook hook) {
  return add_hook("register_node_prehook", x, {.id = 0, .before = std::move(hook)});
}

std::function<void()> register_node_hook(const Tensor& x, NodeHook hook) {
  return add_hook("register_node_hook", x, {.id = 0, .behind = std::move(hook)});
}

std::function<void()> register_multi_grad_hook(const TensorList& tensors,
                                               std::function<void(const TensorList& gradients)> hook) {
  return hook_all("register_multi_grad_hook", tensors,
                  std::make_shared<MultiHook>(tensors.size(), std::move(hook)));
}

std::function<void()> register_any_grad_hook(const TensorList& tensors,
                                             std::function<void(const Tensor& gradient)> hook) {
  return hook_all("register_any_grad_hook", tensors, std::make_shared<AnyHook>(std::move(hook)));
}

}  // namespace reprise::autograd
