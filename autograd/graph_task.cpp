// One backward pass, step by step.
#include "reprise/autograd/graph_task.h"

#include <atomic>
#include <utility>

#include "reprise/autograd/accumulate_grad.h"
#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/leaf/substitution.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/replay_filter.h"
#include "reprise/core/no_compute.h"
#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/reduce/reduce.h"

namespace reprise::autograd {
namespace {

// sum + addend, in place where nothing else holds the buffer.
Tensor sum_of(Tensor&& sum, const Tensor& addend) {
  if (grad_mode_enabled() || !sum.is_sole_owner() || !sum.is_contiguous()) return sum + addend;
  kernels::add_scaled(current_stream(sum.device()), addend, 1.0, sum);
  return std::move(sum);
}

bool all_finite(const Tensor& x) {
  Tensor finite = Tensor::empty(x.shape(), DType::boolean, x.device());
  Tensor count = Tensor::empty(Dims::filled(x.rank(), 1), DType::i64, x.device());
  Stream stream = current_stream(x.device());
  kernels::unary(stream, kernels::UnaryOp::is_finite, x, finite);
  kernels::reduce(stream, kernels::ReduceOp::sum, finite, count);
  return int64_t(count.item()) == x.numel() || NoCompute::is_on();
}

void check_gradients(const Node& node, const TensorList& input_grads) {
  for (size_t i = 0; i < input_grads.size(); ++i) {
    const Edge& edge = node.edges()[i];
    const Tensor& gradient = input_grads[i];
    if (!edge || !gradient.defined()) continue;
    const OutputMeta& expected = edge.node->outputs()[size_t(edge.input)];
    check(gradient.shape() == expected.shape && gradient.dtype() == expected.dtype, node.op_name(),
          ": backward gave argument ", i, " a gradient ", gradient.dtype(), gradient.shape(),
          ", its value is ", expected.dtype, expected.shape);
    check(gradient.device() == expected.device, node.op_name(), ": backward gave argument ", i,
          " a gradient on ", gradient.device(), ", its value is on ", expected.device);
    check(!anomaly_mode_enabled() || all_finite(gradient), node.op_name(),
          ": backward made NaN or inf in the gradient of argument ", i, ", shape ", gradient.shape(),
          "; forward was ", node.origin().empty() ? node.op_name() : node.origin());
  }
}

void check_replaced(const Node& node, size_t output, const Tensor& replaced) {
  const OutputMeta& meta = node.outputs()[output];
  check(replaced.shape() == meta.shape && replaced.dtype() == meta.dtype, node.op_name(),
        ": a hook returned ", replaced.dtype(), replaced.shape(), " for a gradient ", meta.dtype, meta.shape);
  check(replaced.device() == meta.device, node.op_name(), ": a hook returned a tensor on ", replaced.device(),
        " for a gradient on ", meta.device);
}

// Calls a hook on the gradient of one of the node's outputs; what it returns replaces the gradient.
void apply_hook(const Node& node, const Node::GradHook& hook, Tensor& gradient) {
  uint64_t version = gradient.version();
  Tensor replaced = hook.call(gradient);
  check(gradient.version() == version, node.op_name(),
        ": a hook changed the gradient it was given in place, which others may share; it must return a new "
        "one");
  if (!replaced.defined()) return;
  check_replaced(node, size_t(hook.index), replaced);
  gradient = replaced;
}

std::vector<uint64_t> versions_of(const TensorList& grads) {
  std::vector<uint64_t> versions;
  for (const Tensor& gradient : grads) versions.push_back(gradient.defined() ? gradient.version() : 0);
  return versions;
}

// Calls a hook of the node, which sees `grads` and may see `others`; what it returns replaces `grads`.
template <class Call>
void apply_node_hook(const Node& node, const Call& call, TensorList& grads, const TensorList& others = {}) {
  const std::vector<uint64_t> before = versions_of(grads), of_others = versions_of(others);
  TensorList replaced = call();
  check(versions_of(grads) == before && versions_of(others) == of_others, node.op_name(),
        ": a hook changed a gradient it was given in place, which others may share; it must return new ones");
  if (replaced.empty()) return;
  check(replaced.size() == grads.size(), node.op_name(), ": a hook returned ", replaced.size(),
        " gradients for ", grads.size());
  grads = std::move(replaced);
}

thread_local GraphTask* running_task = nullptr;
thread_local uint64_t visited = 0;

struct RunningScope {
  explicit RunningScope(GraphTask& task) : outer(std::exchange(running_task, &task)) {}
  ~RunningScope() { running_task = outer; }
  GraphTask* outer;
};

}  // namespace

void GraphTask::add_root(const Edge& edge, Tensor gradient) {
  roots_.push_back(edge.node);
  add_gradient(edge, std::move(gradient));
}

void GraphTask::restrict_to(const NodePtr& accumulator) {
  restricted_ = true;
  targets_.insert(accumulator.get());
}

void GraphTask::capture(const Edge& edge) {
  restricted_ = true;
  captures_at_.emplace(edge.node.get(), capture_edges_.size());
  capture_edges_.push_back(edge);
  captured_.emplace_back();
}

TensorList GraphTask::take_captured() { return std::move(captured_); }

// Depth first with an explicit stack; also leaves the nodes in post-order, inputs before outputs.
void GraphTask::count_dependencies() {
  std::vector<Node*> post_order;
  std::vector<std::pair<Node*, size_t>> stack;  // node and its next edge
  std::unordered_set<Node*> seen;
  for (const NodePtr& root : roots_) {  // one root at a time: another root may lie below it
    if (seen.insert(root.get()).second) stack.emplace_back(root.get(), 0);
    while (!stack.empty()) {
      auto& [node, next] = stack.back();
      if (next == node->edges().size() || ends_at(node)) {
        post_order.push_back(node);
        stack.pop_back();
        continue;
      }
      const Edge& edge = node->edges()[next++];
      if (!edge) continue;
      ++dependencies_[edge.node.get()];
      if (seen.insert(edge.node.get()).second) stack.emplace_back(edge.node.get(), 0);
    }
  }
  visited += post_order.size();
  if (restricted_) find_needed(post_order);
}

bool GraphTask::ends_at(Node* node) const {
  return stops_at(node) || (ends_at_captures_ && captures_at_.contains(node));
}

uint64_t GraphTask::nodes_visited() { return visited; }

void GraphTask::find_needed(const std::vector<Node*>& children_first) {
  for (Node* node : children_first) {
    bool needed = targets_.contains(node) || captures_at_.contains(node);
    for (const Edge& edge : node->edges()) needed |= edge && needed_.contains(edge.node.get());
    if (needed) needed_.insert(node);
  }
}

void GraphTask::run() {
  OpObserver::notify_backward();
  RunningScope scope(*this);
  amp::AutocastOff off;      // dtypes are those that forward chose
  SubstitutionsAside aside;  // what a graph holds of parameters is what they were when it was recorded
  count_dependencies();
  std::unordered_set<Node*> queued;
  for (const NodePtr& root : roots_)
    if (!dependencies_.contains(root.get()) && queued.insert(root.get()).second) ready_.push(root);
  while (!ready_.empty()) {
    NodePtr node = ready_.top();
    ready_.pop();
    step(node);
  }
}

// In a pass that a replay runs: the same pass in the first run has added to this leaf.
bool GraphTask::is_done(Node& node) const {
  if (!ReplayFilter::active() || captures_at_.contains(&node)) return false;
  auto* leaf = dynamic_cast<AccumulateGrad*>(&node);
  return leaf && ReplayFilter::any_used(leaf->leaf());
}

void GraphTask::step(const NodePtr& node) {
  if (stops_at(node.get()) || is_done(*node)) return;
  // What the nodes behind it have added up for its outputs.
  TensorList grads;
  if (auto buffer = buffers_.find(node.get()); buffer != buffers_.end()) {
    grads = std::move(buffer->second);
    buffers_.erase(buffer);
  }
  grads.resize(node->outputs().size());
  bool any = false;
  for (const Tensor& gradient : grads) any |= gradient.defined();
  bool needed = !restricted_ || needed_.contains(node.get());
  // Hooks and captures see its gradients wherever one came. It runs if what it gives leads on to inputs that
  // were asked for.
  TensorList input_grads;
  if (any && needed) {
    finish_gradients(*node, grads);
    bool is_target = restricted_ && captures_at_.contains(node.get()) && !targets_.contains(node.get());
    bool leads_on = !is_target;
    for (const Edge& edge : node->edges())
      leads_on |= restricted_ && edge && needed_.contains(edge.node.get());
    if (leads_on) {
      input_grads = run_hooked(*node, std::move(grads));
      if (!retain_graph_) node->release();
    }
  }
  grads.clear();  // before other nodes run: memory
  // Without gradients too: the nodes before it count who has answered.
  if (!ends_at(node.get())) deliver(*node, std::move(input_grads));
}

// Hooks, then captures.
void GraphTask::finish_gradients(Node& node, TensorList& grads) {
  for (bool retaining : {false, true}) {
    for (auto hook : std::vector(node.hooks())) {
      Tensor& gradient = grads[size_t(hook.index)];
      if (!gradient.defined() || hook.retains != retaining) continue;
      apply_hook(node, hook, gradient);
    }
  }
  if (auto* leaf = dynamic_cast<AccumulateGrad*>(&node)) {
    for (auto hook : std::vector(leaf->leaf().hooks)) apply_hook(node, hook, grads[0]);
  }
  auto [first, last] = captures_at_.equal_range(&node);
  for (auto it = first; it != last; ++it)
    captured_[it->second] = grads[size_t(capture_edges_[it->second].input)];
}

// The node's hooks around its step. Outputs that got no gradient get zeros, so that backward sees none undefined.
TensorList GraphTask::run_hooked(Node& node, TensorList&& grads) {
  const std::vector<Node::NodeHook> hooks = node.node_hooks();  // a hook may remove itself
  for (const auto& hook : hooks) {
    if (!hook.before) continue;
    apply_node_hook(
        node, [&] { return hook.before(grads); }, grads);
    for (size_t i = 0; i < grads.size(); ++i)
      if (grads[i].defined()) check_replaced(node, i, grads[i]);
  }
  for (size_t i = 0; i < grads.size(); ++i) {
    const OutputMeta& meta = node.outputs()[i];
    if (!grads[i].defined() && !meta.absent && !node.takes_undefined_gradients())
      grads[i] = Tensor::zeros(meta.shape, meta.dtype, meta.device);
  }
  has_pending_ = !node.shows_input_gradients();
  const TensorList shown = has_pending_ ? TensorList() : grads;
  TensorList input_grads = node.run(std::move(grads));
  check_gradients(node, input_grads);
  for (const auto& hook : hooks) {
    if (!hook.behind) continue;
    apply_node_hook(
        node, [&] { return hook.behind(input_grads, shown); }, input_grads, shown);
    check_gradients(node, input_grads);
  }
  return input_grads;
}

void GraphTask::deliver(Node& node, TensorList&& input_grads) {
  const std::vector<Edge>& edges = node.edges();
  for (size_t i = 0; i < edges.size(); ++i) {
    if (!edges[i]) continue;
    if (i < input_grads.size() && input_grads[i].defined()) add_gradient(edges[i], std::move(input_grads[i]));
    if (--dependencies_[edges[i].node.get()] == 0) ready_.push(edges[i].node);
  }
}

void GraphTask::add_gradient(const Edge& asked, Tensor gradient) {
  const Edge& edge = place_of(asked);
  TensorList& buffer = buffers_[edge.node.get()];
  buffer.resize(edge.node->outputs().size());
  Tensor& slot = buffer[size_t(edge.input)];
  slot = slot.defined() ? sum_of(std::move(slot), gradient) : std::move(gradient);
}

Tensor GraphTask::take_addend(const Edge& asked) {
  if (!running_task || !running_task->has_pending_ || grad_mode_enabled()) return {};
  const Edge& edge = running_task->place_of(asked);
  auto buffer = running_task->buffers_.find(edge.node.get());
  if (buffer == running_task->buffers_.end()) return {};
  return std::exchange(buffer->second[size_t(edge.input)], Tensor());
}

Tensor GraphTask::take_pending(const Edge& asked) {
  Tensor sum = take_addend(asked);
  if (!sum.defined() || (sum.is_sole_owner() && sum.is_contiguous())) return sum;
  return sum.clone();  // something else holds it: the same bits either way
}

GraphTask::LeafSum GraphTask::sum_at_leaf(const Edge& asked) {
  if (!running_task || !running_task->has_pending_ || running_task->restricted_ || grad_mode_enabled() ||
      anomaly_mode_enabled())
    return {};
  Node* const node = running_task->place_of(asked).node.get();
  auto* leaf = dynamic_cast<AccumulateGrad*>(node);
  if (!leaf || !leaf->hooks().empty() || !leaf->node_hooks().empty() || running_task->stops_at(node) ||
      running_task->is_done(*node) || running_task->buffers_.contains(node))
    return {};
  const auto left = running_task->dependencies_.find(node);
  if (left == running_task->dependencies_.end() || left->second != 1) return {};
  LeafSum sum = leaf->sum();
  if (sum.gradient.defined()) running_task->added_to_.insert(leaf);
  return sum;
}

Tensor GraphTask::take_sum(const Edge& edge) {
  auto buffer = buffers_.find(edge.node.get());
  return buffer == buffers_.end() ? Tensor() : std::exchange(buffer->second[size_t(edge.input)], Tensor());
}

GraphTask* GraphTask::running() { return running_task; }

uint64_t GraphTask::next_local_id() {
  static std::atomic<uint64_t> next{0};
  return next.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace reprise::autograd
