// Module: a function with parameters. It knows its parameters, buffers and children by name.
#pragma once

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

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

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
/// A module stays where it was made: it is neither copied nor moved.
class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// All parameters, children included, each once, under dotted names such as "h.0.attn.qkv.weight".
  NamedTensors named_parameters() const;
  NamedTensors named_buffers() const;
  TensorList parameters() const;
  int64_t parameter_count() const;  ///< elements

  /// Switches dropout and its like on or off, here and in all children that are not frozen.
  void train(bool on = true);
  void eval() { train(false); }
  bool training() const { return training_; }

  /// Ends training here and in all children, for ever: gradients are dropped and no longer wanted, and
  /// `train()` does not bring back training mode, so that a frozen BatchNorm keeps its statistics too.
  /// Optimizers are made afterwards, from what is left.
  void freeze();
  bool frozen() const { return frozen_; }

  /// Of the parameters that were registered with WeightDecay::never.
  std::vector<std::string> no_weight_decay() const;

  /// Converts floating parameters, their gradients, buffers and constants to `dtype`, in place: a handle to a parameter
  /// stays one. Make optimizers afterwards.
  void to(DType dtype);
  /// Moves parameters, their gradients, buffers and constants, in place too. Make optimizers afterwards: one that has
  /// state on another device refuses its next step, until its `load_state_dict` has moved that.
  void to(Device device);

  void zero_grad();  ///< drops the gradients of all parameters

  /// Parameters and buffers under the names that files have, which a model may choose; else those above. The
  /// tensors are the module's own.
  virtual NamedTensors state_dict() const;
  /// Copies values in, by the names of `state_dict`. One Error lists every missing, unknown and mismatched
  /// name; the module is then unchanged.
  void load_state_dict(const NamedTensors& state);

 protected:
  // A name names one thing: Error if it is taken.

  /// Makes `value` a leaf that requires grad and gives it a name; returns it.
  Tensor register_parameter(std::string name, const Tensor& value, WeightDecay decay = WeightDecay::by_shape);
  /// State that is saved but not trained.
  Tensor register_buffer(std::string name, const Tensor& value);
  /// What the constructor makes anew each time: neither saved nor trained.
  Tensor register_constant(std::string name, const Tensor& value);
  void register_module(std::string name, Module& child);

  /// Of normalisation layers: what they have stays f32 where a model is trained in 16 bits.
  virtual bool is_norm() const { return false; }

 private:
  friend void to_precision(Module& module, DType dtype);
  enum class Kind : uint8_t { parameter, buffer, constant };
  void check_free(const std::string& name) const;
  NamedTensors state_and_constants() const;
  template <class Convert>
  static void replace_tensors(const NamedTensors& all, const Convert& convert);
  const NamedTensors& own(Kind kind) const;
  NamedTensors collect(Kind kind) const;
  void collect(NamedTensors& into, TensorSet& known, const std::string& prefix, Kind kind) const;

  void collect_if(bool (Module::*holds)() const, TensorSet& into) const;
  void collect_undecayed(std::vector<std::string>& into, const std::string& prefix) const;

  Tensor keep(std::string name, const Tensor& value, Kind kind);

  NamedTensors parameters_, buffers_, constants_;
  std::vector<std::string> undecayed_;
  std::vector<std::pair<std::string, Module*>> children_;
  std::unordered_set<std::string> names_;  // of all four
  bool training_ = true, frozen_ = false;
};

/// Converts a model for training in 16 bits: parameters and buffers to `dtype`, those of norms to f32; what is frozen stays,
/// such as a target that is an average, and so do constants. An optimizer made afterwards keeps what is wider
/// (optim::Master). Error unless it is bf16, f16 or f32.
void to_precision(Module& module, DType dtype);

/// A module from one tensor to one tensor: what containers such as Sequential hold.
class Layer : public Module {
 public:
  virtual Tensor forward(const Tensor& x) = 0;
  Tensor operator()(const Tensor& x) { return forward(x); }
};

}  // namespace reprise::nn
