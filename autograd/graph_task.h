// GraphTask: one backward pass over one graph. A nested backward makes a new one.
#pragma once

#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "reprise/autograd/meta.h"

namespace reprise::autograd {

class AccumulateGrad;

class GraphTask {
 public:
  explicit GraphTask(bool retain_graph) : retain_graph_(retain_graph) {}
  virtual ~GraphTask() = default;
  GraphTask(const GraphTask&) = delete;

  void add_root(const Edge& edge, Tensor gradient);
  /// Restricts the pass to what leads to the nodes named here (accumulators).
  void restrict_to(const NodePtr& accumulator);
  /// Restricts the pass to what leads to the edges named here, and takes the gradients that arrive there.
  void capture(const Edge& edge);
  /// The pass looks at nothing behind the edges to capture: it is one over a part of a larger graph, and
  /// costs what that part costs.
  void end_at_captures() { ends_at_captures_ = true; }
  /// Runs nodes, newest ready node first, until none is left.
  void run();
  TensorList take_captured();
  /// How many nodes the passes of this thread have looked at so far.
  static uint64_t nodes_visited();

  /// For a node that runs and whose gradient for `asked` touches few elements of a large tensor: what has
  /// arrived for that edge so far, to be added to in place and returned as the node's own gradient. Undefined
  /// if nothing has, outside a backward pass, or if a hook sees what the node gives.
  static Tensor take_pending(const Edge& asked);
  /// The same for a node whose gradient is as large as what has arrived: others may hold that, so it may be written to only as its
  /// sole owner.
  static Tensor take_addend(const Edge& asked);

  /// The gradient that a leaf has from earlier passes, for a node that runs to add to in place and to return as its own gradient for
  /// `asked`. No other pass adds to it while the lock lives. Undefined, and unlocked, unless `asked` is a leaf's without hooks and this is
  /// all that the pass gives it.
  struct LeafSum {
    std::unique_lock<std::mutex> lock{};
    Tensor gradient{};
  };
  static LeafSum sum_at_leaf(const Edge& asked);
  /// Whether a node of the pass has added to this leaf itself.
  bool has_added_to(const AccumulateGrad& leaf) const { return added_to_.contains(&leaf); }

  /// This thread's innermost pass that runs; null outside of any.
  static GraphTask* running();
  /// Whether nodes keep what they saved.
  bool retains_graph() const { return retain_graph_; }
  /// Whether the pass leaves nodes out: grad(), or backward() with inputs.
  bool is_restricted() const { return restricted_; }
  /// Where the pass adds gradients for `asked`.
  virtual const Edge& place_of(const Edge& asked) const { return asked; }
  /// Takes out what has arrived for `edge` so far; undefined if nothing has.
  Tensor take_sum(const Edge& edge);

 protected:
  /// Whether the pass ends at `node`, which does not run: what arrives there stays.
  virtual bool stops_at(Node*) const { return false; }
  void add_gradient(const Edge& asked, Tensor gradient);

 private:
  template <class T>
  friend class PassLocal;
  struct NewestFirst {
    bool operator()(const NodePtr& a, const NodePtr& b) const { return a->sequence() < b->sequence(); }
  };

  void count_dependencies();
  bool ends_at(Node* node) const;
  void find_needed(const std::vector<Node*>& children_first);
  bool is_done(Node& node) const;
  void step(const NodePtr& node);
  void finish_gradients(Node& node, TensorList& grads);
  TensorList run_hooked(Node& node, TensorList&& grads);
  void deliver(Node& node, TensorList&& input_grads);
  static uint64_t next_local_id();

  bool retain_graph_;
  std::unordered_map<uint64_t, std::shared_ptr<void>> locals_;  // of PassLocals, by their ids
  bool ends_at_captures_ = false;
  bool has_pending_ = true;            // for the node that runs
  bool restricted_ = false;            // some nodes are not needed
  std::unordered_set<Node*> targets_;  // targets that run (accumulators)
  std::unordered_set<Node*> needed_;   // what leads to a target, when restricted
  std::vector<NodePtr> roots_;
  std::vector<Edge> capture_edges_;
  std::unordered_multimap<Node*, size_t> captures_at_;  // into capture_edges_ and captured_
  TensorList captured_;
  std::unordered_map<Node*, int> dependencies_;
  std::unordered_map<Node*, TensorList> buffers_;
  std::unordered_set<const AccumulateGrad*> added_to_;
  std::priority_queue<NodePtr, std::vector<NodePtr>, NewestFirst> ready_;
};

}  // namespace reprise::autograd
