// Node: one differentiable operation in the graph. It knows where its inputs' gradients go (edges), what its
// outputs looked like (metadata), and how to turn the gradients of its outputs into gradients of its inputs
// (run).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

class Node;
using NodePtr = std::shared_ptr<Node>;  ///< a node, shared by what leads to it

namespace detail {
/// Deletes nodes one by one, without a byte of new memory: a graph of any depth is destroyed without
/// recursion.
void delete_later(Node* node) noexcept;
}  // namespace detail

/// Where a gradient goes: slot `input` of `node`. An absent node means that it is not wanted.
struct Edge {
  NodePtr node;                                               ///< null: the gradient is not wanted
  int input = 0;                                              ///< the output of the node that it is of
  explicit operator bool() const { return node != nullptr; }  ///< whether it is wanted
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// What a forward output looked like; its gradient must match.
struct OutputMeta {
  Shape shape;               ///< its sizes
  DType dtype = DType::f32;  ///< of its elements
  Device device;             ///< where it is
  bool absent = false;       ///< forward returned no tensor there: its gradient is always undefined
};

/// One differentiable operation in a graph: where the gradients of its inputs go, and how they follow from those of its
/// outputs. A program's own are made by Function.
class Node {
 public:
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// The gradients of the inputs, one for each edge (undefined: none), from the gradients of the outputs:
  /// zeros where none arrived, undefined where forward returned no tensor.
  virtual TensorList run(TensorList&& output_grads) = 0;
  virtual const char* op_name() const = 0;  ///< as messages and traces call it: "linear"
  /// Frees what was kept for backward; running the node again is then an Error.
  virtual void release() {}
  /// Whether it tells an output without gradient from one whose gradient is zero: then `run` gets undefined
  /// ones too.
  virtual bool takes_undefined_gradients() const { return false; }

  /// Where the gradients of the inputs go, in their order.
  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<OutputMeta>& outputs() const { return outputs_; }  ///< what forward returned, in order
  uint64_t sequence() const {
    return sequence_;
  }  ///< grows with time: backward runs the newest ready node first
  const std::string& origin() const { return origin_; }  ///< in anomaly mode: the forward call, for messages

  /// Hooks on the gradient of output `index`, in the order they were added; see Tensor::register_hook.
  struct GradHook {
    uint64_t id;           ///< of this hook alone: it is removed by it
    int index;             ///< of the output
    TensorHook call;       ///< gets the gradient; what it returns replaces it, if that is defined
    bool retains = false;  ///< runs after all others: retain_grad keeps what flows on
  };
  std::vector<GradHook>& hooks() { return hooks_; }  ///< of all outputs

  /// A hook on the operation's step backward, one of both; see register_node_prehook and register_node_hook.
  struct NodeHook {
    uint64_t id;                                                         ///< as of a GradHook
    std::function<TensorList(const TensorList& output_grads)> before{};  ///< a prehook; else empty
    /// A hook behind the operation; else empty.
    std::function<TensorList(const TensorList& input_grads, const TensorList& output_grads)> behind{};
  };
  std::vector<NodeHook>& node_hooks() { return node_hooks_; }  ///< of its step, in the order of their adding
  /// Whether hooks see the gradients of its inputs: then they are its own alone, without what others gave to these.
  bool shows_input_gradients() const;

 protected:
  Node();
  /// With a place in the order of its own: leaves run as soon as their gradient is whole.
  explicit Node(uint64_t sequence);
  std::vector<Edge> edges_;          ///< one for each input
  std::vector<OutputMeta> outputs_;  ///< one for each output
  std::string origin_;               ///< empty outside of anomaly mode

 private:
  friend void detail::delete_later(Node* node) noexcept;

  uint64_t sequence_;
  std::vector<GradHook> hooks_;
  std::vector<NodeHook> node_hooks_;
  Node* deleted_after_ = nullptr;  // the next in the queue of those that nothing holds
};

/// A new node. Letting go of the last handle destroys it and what it alone leads to without recursion.
template <class T, class... Args>
std::shared_ptr<T> make_node(Args&&... args) {
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), [](T* node) { detail::delete_later(node); });
}

/// Nodes alive in the process: zero once every graph is gone.
int64_t live_nodes();

}  // namespace reprise::autograd
