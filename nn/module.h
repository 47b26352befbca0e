// Module: a function with parameters. It knows its parameters, buffers and children by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise {
class TensorSet;
}

namespace reprise::nn {

/// What weight decay does with a parameter.
enum class WeightDecay : uint8_t {
  by_shape,  ///< matrices and tables decay, vectors do not
  never,     ///< such as positions: `no_weight_decay` names it
};

class FunctionalCall;
class Layer;
class Module;
/// Tensors under names, in order: what a state dict is.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// Modules under names, in order; the list does not own them.
using NamedModules = std::vector<std::pair<std::string, Module*>>;

/// Names that a state and a module do not share.
struct UnmatchedNames {
  std::vector<std::string> missing{};     ///< of the module, not in the state: they keep their values
  std::vector<std::string> unexpected{};  ///< of the state, not in the module: they are left out
};

/// Base of all layers and models. Members are layers; the constructor registers them:
///
///   struct Net : rp::nn::Module {
///     rp::nn::Linear hidden{784, 128}, out{128, 10};
///     Net() {
///       register_module("hidden", hidden);
///       register_module("out", out);
///     }
///     rp::Tensor operator()(const rp::Tensor& x) { return out(rp::relu(hidden(x))); }
///   };
///
/// A module stays where it was made: it is neither copied nor moved. Like a handle, a reference to a const one reaches all that the
/// module has: it can be called, which may change running statistics.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// All parameters, children included, each once, under dotted names such as "h.0.attn.qkv.weight".
  NamedTensors named_parameters() const;
  /// All buffers, children included, each once, under dotted names: what is saved and not trained. No constants.
  NamedTensors named_buffers() const;
  TensorList parameters() const;    ///< those of `named_parameters`, in its order: what an optimizer takes
  int64_t parameter_count() const;  ///< elements

  /// In the order in which they were registered.
  const NamedModules& named_children() const { return children_; }
  /// Itself under "", then all below it, each once, under dotted names; a parent before its children.
  NamedModules named_modules();
  /// f(module) for all below it, children before their parents, and then for itself.
  void apply(const std::function<void(Module&)>& f);
  /// The module of a dotted name: `model.at<rp::nn::Linear>("h.0.attn.qkv")`. Error if there is none, or if it is of
  /// another class.
  template <class M = Module>
  M& at(const std::string& name) const {
    Module& found = find(name);
    if (M* as = dynamic_cast<M*>(&found)) return *as;
    refuse_class(name, found);
  }

  /// Puts `layer` in the place of the layer of a dotted name, for ever: whoever calls the old one, in whatever way, calls
  /// the new one, and names below are the new one's. The old one's `forward(x)` stays its own, which is how the new one
  /// may use it (examples/lora.cpp). Optimizers are made afterwards. Error if there is no layer of that name, or its
  /// parent reads its tensors without a call, as a Gpt does with its tables.
  void replace(const std::string& name, std::shared_ptr<Layer> layer);

  /// Switches dropout and its like on or off, here and in all children that are not frozen.
  void train(bool on = true);
  void eval() { train(false); }  ///< dropout does nothing, BatchNorm goes by its running statistics
  bool training() const { return training_; }  ///< true at first; false after `train(false)`, and once frozen

  /// Ends training here and in all children, for ever: gradients are dropped and no longer wanted, and
  /// `train()` does not bring back training mode, so that a frozen BatchNorm keeps its statistics too.
  /// Optimizers are made afterwards, from what is left.
  void freeze();
  bool frozen() const { return frozen_; }  ///< `freeze` was called, here or on a module above

  /// Of the parameters that were registered with WeightDecay::never.
  std::vector<std::string> no_weight_decay() const;

  /// Converts floating parameters, their gradients, buffers and constants to `dtype`, in place: a handle to a parameter
  /// stays one. Make optimizers afterwards.
  void to(DType dtype);
  /// Moves parameters, their gradients, buffers and constants, in place too. Make optimizers afterwards: one that has
  /// state on another device refuses its next step, until its `load_state_dict` has moved that.
  void to(Device device);

  std::string class_name() const;  ///< "Linear", or with the namespace where that is not reprise::nn

  void zero_grad();  ///< drops the gradients of all parameters

  /// Parameters and buffers under the names that files have, which a model may choose; else those above. The
  /// tensors are the module's own.
  virtual NamedTensors state_dict() const;
  /// Copies values in, by the names of `state_dict`. One Error lists every missing, unknown and mismatched
  /// name; the module is then unchanged. If not `strict`, names that only one of the two has are no error but the
  /// result: say so to the user, since a misspelt prefix loads nothing.
  UnmatchedNames load_state_dict(const NamedTensors& state, bool strict = true);

 protected:
  // A name names one thing: Error if it is taken.

  /// Makes `value` a leaf that requires grad and gives it a name; returns it.
  Tensor register_parameter(std::string name, const Tensor& value, WeightDecay decay = WeightDecay::by_shape);
  /// State that is saved but not trained.
  Tensor register_buffer(std::string name, const Tensor& value);
  /// What the constructor makes anew each time: neither saved nor trained.
  Tensor register_constant(std::string name, const Tensor& value);
  /// Makes a member a child: its parameters, buffers and mode are part of this module's. The child is not owned and has
  /// to live as long. Error if it is this module, or the name is taken.
  void register_module(std::string name, Module& child);
  /// A layer whose tensors this module reads without a call, or which it does not always call: it can be neither replaced
  /// nor given hooks, since these would be passed over.
  void register_fixed(std::string name, Layer& child);

  /// Of normalisation layers: what they have stays f32 where a model is trained in 16 bits.
  virtual bool is_norm() const { return false; }

 private:
  friend class FunctionalCall;
  friend void to_precision(Module& module, DType dtype);
  enum class Kind : uint8_t { parameter, buffer, constant };
  void check_free(const std::string& name) const;
  Module& find(const std::string& name) const;
  [[noreturn]] static void refuse_class(const std::string& name, const Module& found);
  NamedTensors state_and_constants() const;
  template <class Convert>
  static void replace_tensors(const NamedTensors& all, const Convert& convert);
  const NamedTensors& own(Kind kind) const;
  NamedTensors collect(Kind kind) const;
  void collect_all(NamedTensors& into, const std::string& prefix, Kind kind) const;
  void collect(NamedTensors& into, TensorSet& known, const std::string& prefix, Kind kind) const;

  void collect_if(bool (Module::*holds)() const, TensorSet& into) const;
  void collect_undecayed(std::vector<std::string>& into, const std::string& prefix) const;

  Tensor keep(std::string name, const Tensor& value, Kind kind);

  NamedTensors parameters_, buffers_, constants_;
  std::vector<std::string> undecayed_;
  NamedModules children_;
  std::unordered_set<std::string> names_;  // of all four
  bool training_ = true, frozen_ = false;
};

/// Converts a model for training in 16 bits: parameters and buffers to `dtype`, those of norms to f32; what is frozen stays,
/// such as a target that is an average, and so do constants. An optimizer made afterwards keeps what is wider
/// (optim::Master). Error unless it is bf16, f16 or f32.
void to_precision(Module& module, DType dtype);

/// A module from one tensor to one tensor: what containers such as Sequential hold. It is called, not its `forward`: hooks
/// and a replacement are part of the call.
class Layer : public Module {
 public:
  Layer();
  ~Layer() override;
  /// What the layer makes of x. A layer defines it, and others call the layer instead, since this passes over hooks and
  /// replacements.
  virtual Tensor forward(const Tensor& x) = 0;
  /// forward(x) with the hooks around it; of a replaced layer, the call of the one in its place.
  Tensor operator()(const Tensor& x) const {
    return changed_ ? call_changed(x, nullptr) : const_cast<Layer*>(this)->forward(x);
  }

  /// What the layer makes of x with other tensors beside it, which a layer that takes some defines too: a mask, a context, in the order
  /// of its call. As it is here: `forward(x)`, and an Error if one of them is defined.
  virtual Tensor forward_with(const Tensor& x, const TensorList& beside);
  /// forward_with(x, beside) with the hooks around it, which see x; of a replaced layer, the call of the one in its place.
  Tensor call_with(const Tensor& x, const TensorList& beside) const {
    return changed_ ? call_changed(x, &beside) : const_cast<Layer*>(this)->forward_with(x, beside);
  }

  // Hooks, in the order in which they were added. They run in each call, also where a checkpoint plays its region again.
  // The result removes the hook. Error where a parent reads the layer's tensors without a call.

  /// Gets x; returns another x, or an undefined tensor to keep it.
  using ForwardPreHook = std::function<Tensor(const Tensor& x)>;
  /// Gets x, as the pre-hooks left it, and the result y; returns another y, or an undefined tensor to keep it.
  using ForwardHook = std::function<Tensor(const Tensor& x, const Tensor& y)>;
  /// hook(x) before the layer; what it returns, if it is defined, is the layer's x. The result removes the hook.
  std::function<void()> register_forward_pre_hook(ForwardPreHook hook);
  /// hook(x, y) behind the layer; what it returns, if it is defined, is the call's result. The result removes the hook.
  std::function<void()> register_forward_hook(ForwardHook hook);

  /// Gets the gradients of x, undefined where x requires none, and of the result; returns another one of x, or an undefined tensor
  /// to keep it.
  using BackwardHook = std::function<Tensor(const Tensor& dx, const Tensor& dy)>;
  /// hook(dx, dy) in each backward pass that reaches x, or, where x requires no gradient, the result. x is what pre-hooks left, and
  /// the result what forward hooks left. Under NoGrad it does nothing. The result removes the hook, for calls to come. (PyTorch:
  /// register_full_backward_hook.)
  std::function<void()> register_full_backward_hook(BackwardHook hook);

  /// Had hooks or was replaced: a call is more than forward(x), and what fuses the layer with other work must make a call
  /// and do that behind it.
  bool is_changed() const { return changed_ != nullptr; }
  /// For what does the layer's work without a call: Error, that `method` would pass over hooks and a replacement, if there were any.
  void check_unchanged(const char* method) const;

 private:
  friend class Module;
  struct Changed;
  struct BackwardCall;
  Tensor call_changed(const Tensor& x, const TensorList* beside) const;
  Tensor call_hooked(const Tensor& x, const TensorList* beside) const;
  const std::shared_ptr<Changed>& change();
  void replace_by(std::shared_ptr<Layer> layer, const std::string& name);

  std::shared_ptr<Changed> changed_;
  bool fixed_ = false;
};

}  // namespace reprise::nn
