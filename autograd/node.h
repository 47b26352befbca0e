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
using NodePtr = std::shared_ptr<Node>;

namespace detail {
/// Deletes nodes one by one, without a byte of new memory: a graph of any depth is destroyed without
/// recursion.
void delete_later(Node* node) noexcept;
}  // namespace detail

/// Where a gradient goes: slot `input` of `node`. An absent node means that it is not wanted.
struct Edge {
  NodePtr node;
  int input = 0;
  explicit operator bool() const { return node != nullptr; }
  friend bool operator==(const Edge&, const Edge&) = default;
};

/// What a forward output looked like; its gradient must match.
struct OutputMeta {
  Shape shape;
  DType dtype = DType::f32;
  Device device;
  bool absent = false;  ///< forward returned no tensor there: its gradient is always undefined
};

class Node {
 public:
  virtual ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// The gradients of the inputs, one for each edge (undefined: none), from the gradients of the outputs:
  /// zeros where none arrived, undefined where forward returned no tensor.
  virtual TensorList run(TensorList&& output_grads) = 0;
  virtual const char* op_name() const = 0;
  /// Frees what was kept for backward; running the node again is then an Error.
  virtual void release() {}
  /// Whether it tells an output without gradient from one whose gradient is zero: then `run` gets undefined
  /// ones too.
  virtual bool takes_undefined_gradients() const { return false; }

  const std::vector<Edge>& edges() const { return edges_; }
  const std::vector<OutputMeta>& outputs() const { return outputs_; }
  uint64_t sequence() const {
    return sequence_;
  }  ///< grows with time: backward runs the newest ready node first
  const std::string& origin() const { return origin_; }  ///< in anomaly mode: the forward call, for messages

  /// Hooks on the gradient of output `index`, in the order they were added; see Tensor::register_hook.
  struct GradHook {
    uint64_t id;
    int index;
    TensorHook call;
    bool retains = false;  ///< runs after all others: retain_grad keeps what flows on
  };
  std::vector<GradHook>& hooks() { return hooks_; }

  /// A hook on the operation's step backward, one of both; see register_node_prehook and register_node_hook.
  struct NodeHook {
    uint64_t id;
    std::function<TensorList(const TensorList& output_grads)> before{};
    std::function<TensorList(const TensorList& input_grads, const TensorList& output_grads)> behind{};
  };
  std::vector<NodeHook>& node_hooks() { return node_hooks_; }
  /// Whether hooks see the gradients of its inputs: then they are its own alone, without what others gave to these.
  bool shows_input_gradients() const;

 protected:
  Node();
  /// With a place in the order of its own: leaves run as soon as their gradient is whole.
  explicit Node(uint64_t sequence);
  std::vector<Edge> edges_;
  std::vector<OutputMeta> outputs_;
  std::string origin_;

 private:
  friend void detail::delete_later(Node* node) noexcept;

  uint64_t sequence_;
  std::vector<GradHook> hooks_;
  std::vector<NodeHook> node_hooks_;
  Node* deleted_after_ = nullptr;  // the next in the queue of those that nothing holds
};

template <class T, class... Args>
std::shared_ptr<T> make_node(Args&&... args) {
  return std::shared_ptr<T>(new T(std::forward<Args>(args)...), [](T* node) { detail::delete_later(node); });
}

/// Nodes alive in the process: zero once every graph is gone.
int64_t live_nodes();

}  // namespace reprise::autograd
