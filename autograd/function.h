// Function: how an operation joins the graph. Built-in operations and a user's own are written the same way:
//
//   struct Cube : rp::autograd::Function<Cube> {
//     static constexpr const char* name = "cube";
//     rp::Tensor forward(const rp::Tensor& x) {
//       save(x);
//       return x * x * x;
//     }
//     rp::TensorList backward(const rp::TensorList& dy) {
//       rp::Tensor x = saved(0);
//       return {dy[0] * x * x * 3.0};
//     }
//   };
//   rp::Tensor y = Cube::apply(x);
//
// `forward` takes tensors (an undefined one for an absent argument), lists of tensors and anything else, and
// returns a tensor or a list, of which some may be undefined: nothing there. Tensors that backward needs go
// through `save`; numbers and shapes go into members. An output kept in a member would hold its own node,
// which holds it: a cycle that is never freed. `backward` returns a gradient for each tensor argument in
// order, undefined where none is due; written with differentiable operations it can be differentiated again.
// Of an output without a gradient `dy` has zeros; it is undefined there if the operation has a member
// `bool takes_undefined_gradients() const override { return true; }` (PyTorch: set_materialize_grads(False)).
// A checkpoint compares the arguments of its two runs: numbers, flags, enums, sizes, texts, and structs that
// say what is in them (see attributes.h). What autocast does with the arguments says a member `autocast`
// (amp/autocast.h).
#pragma once

#include <concepts>
#include <optional>
#include <tuple>

#include "reprise/autograd/cast_seam.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/op_observer.h"
#include "reprise/autograd/saved_tensor.h"
#include "reprise/core/memory.h"

namespace reprise::autograd {

/// The parts of Function that do not depend on the operation.
class FunctionNode : public Node, public std::enable_shared_from_this<FunctionNode> {
 public:
  void release() final;  ///< see Node: lets go of what was saved

 protected:
  /// Keeps tensors for backward; call it in `forward`, for inputs, outputs or intermediates.
  template <class... Tensors>
  void save(const Tensors&... tensors) {
    if (recording_) (to_save_.push_back(tensors), ...);
  }
  /// The i-th saved tensor; call it in `backward`. Each call unpacks again. Error if forward saved fewer.
  Tensor saved(int i) const;
  /// The same, for a backward that may write over it: where the pass does not retain the graph, nothing here holds it any
  /// longer, so that it is the caller's if it `is_sole_owner`.
  Tensor take_saved(int i);

  /// Whether the gradient of the i-th tensor argument is wanted.
  bool needs_grad(int i) const { return size_t(i) < edges_.size() && bool(edges_[size_t(i)]); }
  /// While it lives, memory is accounted to `gradients` if the i-th tensor argument is a leaf: for `backward`
  /// to make the gradient of a parameter in.
  MemoryScope gradient_memory(int i) const;
  /// The dtype that the gradient of the i-th tensor argument should have: of an f32 weight it is f32, whatever dtype
  /// autocast gave to `forward`; of a leaf, its `grad_dtype`. `otherwise` where no gradient is wanted. One that `backward` returns in another dtype
  /// is cast.
  DType gradient_dtype(int i, DType otherwise) const;
  /// Whether autocast chose the dtypes: then an operation may take what it refuses otherwise.
  bool under_autocast() const { return under_autocast_; }
  /// Whether a graph is being recorded at all: if not, forward need not keep anything.
  bool recording() const { return recording_; }
  /// Whether anybody will read the results, or only what is saved: if not, forward may return
  /// `Tensor::hollow` ones and leave out what only they need.
  bool results_wanted() const { return results_wanted_; }

  /// Before `forward`: notes which gradients are wanted, and whether anything is recorded.
  void begin(const TensorList& inputs, bool under_autocast);
  /// After `forward`: checks its outputs, tells observers, attaches the node and saves what `save` named.
  void finish(const TensorList& outputs, const TensorList& inputs, const CastSeam* seam, const char* op_name);
  /// `backward` of a transparent operation will run under the scopes that hold now.
  void note_autocast() { forward_autocast_ = amp::autocast_state(); }
  /// What `note_autocast` noted; off if it was not called.
  const amp::AutocastState& forward_autocast() const { return forward_autocast_; }
  /// Brings gradients to their `gradient_dtype` where autocast, or the `grad_dtype` of a leaf, makes it another.
  void cast_gradients(TensorList& grads) const;
  /// The error once more with the advice to declare a policy for autocast, if it is no special one and the arguments are of several
  /// floating dtypes; else it returns.
  static void advise_policy(const Error& error, const TensorList& inputs);
  /// Throws an Error that names the operation and which of its tensor arguments are undefined.
  [[noreturn]] static void throw_undefined(const char* op_name, const UndefinedTensor& error,
                                           const TensorList& inputs);
  /// Error unless `backward` returned as many gradients as there are tensor arguments.
  static void check_gradient_count(const char* op_name, size_t got, size_t expected);

 private:
  static void check_outputs(const TensorList& outputs, const TensorList& inputs, const char* op_name);
  void describe(const TensorList& inputs, const char* op_name);

  bool recording_ = false;
  bool results_wanted_ = true;
  bool released_ = false;
  bool under_autocast_ = false;
  amp::AutocastState forward_autocast_{};
  TensorList to_save_;
  std::vector<SavedTensor> saved_;
  amp::Shadows kept_shadows_ = amp::Shadows::none;
  std::vector<std::optional<DType>> shadows_;  // which of them were shadows of weights, in this dtype
};

namespace detail {
inline void collect(TensorList& into, const Tensor& x) { into.push_back(x); }
inline void collect(TensorList& into, const TensorList& list) {
  into.insert(into.end(), list.begin(), list.end());
}
template <class T>
requires(!std::derived_from<T, Tensor>) void collect(TensorList&, const T&) {}
/// What a Function declares as the cost of a call with these arguments; unknown where it says nothing.
template <class F, class... Args>
constexpr OpCost cost_of(const Args&... args) {
  if constexpr (requires { &F::cost_of; })
    return F::cost_of(args...);
  else if constexpr (requires { F::cost; })
    return F::cost;
  else
    return {};
}
template <class F>
concept DeclaresAutocast = requires {
  F::autocast;
};
/// Which of a Function's tensor arguments autocast leaves as they are: bit i is the i-th.
template <class F>
constexpr uint32_t kept_by_autocast() {
  if constexpr (requires { F::autocast_keeps; })
    return F::autocast_keeps;
  else
    return 0;
}
inline TensorList as_list(const Tensor& x) { return {x}; }
inline const TensorList& as_list(const TensorList& list) { return list; }
template <class Result>
Result from_list(TensorList&& list) {
  if constexpr (std::is_same_v<Result, TensorList>)
    return std::move(list);
  else
    return std::move(list[0]);
}
}  // namespace detail

/// The base of an operation, built in or a user's own: `struct Cube : Function<Cube>`, as at the head of this file.
/// `Derived` has `name`, `forward` and `backward`, and may have `autocast` (amp::Policy), `autocast_keeps` (bit i: the
/// i-th tensor argument is left alone) and `cost` or `cost_of` (OpCost). An object is one call: the node in the graph. (PyTorch:
/// torch.autograd.Function.)
template <class Derived>
class Function : public FunctionNode {
 public:
  /// Runs `Derived::forward` with recording off and, if a gradient may be wanted, attaches the node to the
  /// outputs.
  template <class... Args>
  static auto apply(const Args&... args) {
    TensorList inputs;
    (detail::collect(inputs, args), ...);
    if constexpr (detail::DeclaresAutocast<Derived>) {
      if (amp::autocast_state().any) {
        CastSeam seam(Derived::autocast, detail::kept_by_autocast<Derived>(), inputs);
        amp::AutocastOff off;
        auto run = [&](const auto&... given) { return record(seam.inputs(), &seam, given...); };
        return std::apply(run, std::tuple<decltype(seam.next(args))...>{seam.next(args)...});
      }
    }
    return record(inputs, nullptr, args...);
  }

  const char* op_name() const final { return Derived::name; }  ///< in messages, traces and policies

  /// For the engine: runs `Derived::backward` and checks what it returns.
  TensorList run(TensorList&& output_grads) final {
    TensorList grads;
    try {
      std::optional<amp::RestoreAutocast> scopes;
      if (forward_autocast().any) scopes.emplace(forward_autocast());
      grads = static_cast<Derived*>(this)->backward(output_grads);
    } catch (const UndefinedTensor& error) { throw_undefined(Derived::name, error, {}); }
    check_gradient_count(Derived::name, grads.size(), edges_.size());
    cast_gradients(grads);
    return grads;
  }

 private:
  /// `inputs` are in the graph; of those that `seam` reads by shadows, the weights.
  template <class... Args>
  static auto record(const TensorList& inputs, const CastSeam* seam, const Args&... args) {
    using Result = decltype(std::declval<Derived&>().forward(args...));
    if (OpObserver::any()) {
      Attributes attributes = attributes_of(args...);
      if (seam) attributes.values = mix(attributes.values, seam->attribute());
      OpObserver::notify_begin(
          {Derived::name, inputs, attributes, detail::cost_of<Derived>(args...), /*replaceable=*/true});
    }
    if (auto results = OpInterceptor::find_replacement(Derived::name, inputs))
      return detail::from_list<Result>(std::move(*results));
    std::shared_ptr<Derived> node = make_node<Derived>();
    Function& self = *node;
    self.begin(inputs, seam && seam->is_on());
    if (!detail::DeclaresAutocast<Derived> && amp::autocast_state().any) self.note_autocast();
    Result result = [&] {
      NoGrad guard;
      InsideOp inside;
      try {
        return node->forward(args...);
      } catch (const UndefinedTensor& error) {
        throw_undefined(Derived::name, error, inputs);
      } catch (const Error& error) {
        if (!detail::DeclaresAutocast<Derived> && amp::autocast_state().any) advise_policy(error, inputs);
        throw;
      }
    }();
    self.finish(detail::as_list(result), inputs, seam, Derived::name);
    return result;
  }
};

/// For the backward of a fused operation under create_graph: the gradients of `inputs`, as a graph, through
/// `composite`, the same function built from simpler operations. Undefined inputs stay undefined and get
/// none.
TensorList composite_backward(const std::function<TensorList(const TensorList&)>& composite,
                              const TensorList& inputs, const TensorList& output_grads);

}  // namespace reprise::autograd
