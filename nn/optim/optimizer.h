// Optimizer: what changes parameters, and what SGD and AdamW share: groups, and state saved by name.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "reprise/kernels/optimizer/gradient_norm.h"
#include "reprise/nn/module.h"
#include "reprise/nn/optim/masters.h"
#include "reprise/nn/optim/setting.h"
#include "reprise/nn/registration.h"

namespace reprise::optim {

/// Parameters that share a learning rate and a weight decay. Their rate is `lr * lr_scale`: a schedule sets
/// `lr` of all groups by `set_lr`, and each keeps its share of it:
///
///   AdamW optimizer({{.parameters = backbone.parameters(), .lr_scale = 0.1}, {.parameters =
///   head.parameters()}}); optimizer.set_lr(schedule(step));
struct ParameterGroup {
  TensorList parameters{};  ///< leaves that require a gradient
  double lr = 1e-3;         ///< what `set_lr` sets
  double weight_decay = 0;  ///< what `set_weight_decay` sets, if it is above 0 or the group `decays`
  double lr_scale = 1;      ///< the group's share of lr
  bool decays =
      false;  ///< whether a weight decay of 0 is one that may rise: true once `set_weight_decay` has set it
};

/// The dtype of what an optimizer keeps with a parameter: f64 for f64, f32 for all others.
inline DType state_dtype(const Tensor& parameter) {
  return parameter.dtype() == DType::f64 ? DType::f64 : DType::f32;
}

/// Elements begin ... end - 1 of a tensor, in row-major order.
struct ElementRange {
  int64_t begin = 0;                             ///< the first
  int64_t end = 0;                               ///< behind the last
  int64_t count() const { return end - begin; }  ///< elements
  friend bool operator==(const ElementRange&, const ElementRange&) = default;
};

/// A parameter with the digits that its 16 bits have no room for, where the optimizer keeps them.
struct WideParameter {
  Tensor value;      ///< its copy in f32, or itself
  Tensor remainder;  ///< beside itself, u8 (shape, 2): the lower half (Master::split); undefined: none
  std::optional<ElementRange>
      part{};  ///< of which elements these are, flat, where ranks share them; none: of all
};

/// What a training loop needs of SGD, AdamW or several of them (OptimizerList).
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// One update from the gradients, each multiplied by `gradient_scale` first (clipping, averaging, loss
  /// scale). Parameters without a gradient are left alone. Error, and no update, if a rate or a weight decay
  /// is negative or not finite, the scale is not finite, or state and parameters are on several devices.
  virtual void step(double gradient_scale = 1) = 0;
  /// As step, by numbers of one element each on the parameters' device: an update from the gradients, each multiplied by
  /// `gradient_scale` (f64); none where `found` (i32) is not 0: then parameters, state and counts keep their bits. AdamW
  /// and Sgd wait for neither; the others read them first. See GradScaler.
  virtual void step_if_finite(const Tensor& gradient_scale, const Tensor& found);

  /// Allocates the state now rather than in the first step, so that memory planning counts it.
  virtual void allocate_state() = 0;
  /// Bytes of tensors that a step makes beside parameters, gradients and state: of those that are there at once, when they
  /// are most. Nothing for optimizers of one kernel.
  virtual std::vector<size_t> step_temporaries() const { return {}; }
  void zero_grad();  ///< drops all gradients
  /// Checks the gradients of all parameters that have one, in the order of the groups: see kernels::norm_and_check.
  virtual void check_gradients(const kernels::GradientCheck& check);
  /// Sets `lr` of every group; their `lr_scale` stays. Error if groups have an `lr` each, which one for all
  /// would make equal.
  void set_lr(double lr);
  /// Sets `weight_decay` of every group that has one, or `decays`; the others stay without. Error below 0, or if groups have
  /// one each.
  void set_weight_decay(double weight_decay);
  /// The groups in their order; their numbers may be changed between steps.
  virtual std::vector<ParameterGroup*> all_groups() = 0;
  /// The optimizers that it consists of, each with what the names of its state begin with: itself alone, with nothing.
  virtual std::vector<std::pair<std::string, Optimizer*>> parts() { return {{"", this}}; }
  /// What averages follow, of the parameters of all groups in their order.
  virtual std::vector<WideParameter> wide_parameters();
  virtual int64_t steps() const = 0;  ///< updates so far

  /// State tensors under names such as "0.first_moment" (the parameter's place in the groups), and "steps".
  virtual nn::NamedTensors state_dict() const = 0;
  /// What this rank is to save of it. As state_dict; but of a state that ranks share, such as "0.first_moment", the elements
  /// that this one has, "0.first_moment:4096" (the first of them), and all its sizes, "0.first_moment:shape".
  virtual nn::NamedTensors own_state_dict() const { return state_dict(); }
  /// Copies values in, to where the parameters are: of a state_dict, whatever ranks it is from, or an own_state_dict of this
  /// rank. Error, and no change, if names or shapes do not fit.
  virtual void load_state_dict(const nn::NamedTensors& state) = 0;

 protected:
  Optimizer() = default;
  /// Error if a number of a group is negative or not finite.
  void check_groups();
};

/// What SGD, AdamW, Lamb and Lars share: groups, and state by the places of parameters in them.
class GroupOptimizer : public Optimizer {
 public:
  /// Its groups; their numbers may be changed between steps.
  std::vector<ParameterGroup>& groups() { return groups_; }
  std::vector<ParameterGroup*> all_groups() override;
  int64_t steps() const override;
  nn::NamedTensors state_dict() const override;
  void load_state_dict(const nn::NamedTensors& state) override;

 protected:
  /// What a state tensor is made as.
  struct StateForm {
    DType dtype;  ///< of its elements
    Shape shape;  ///< its sizes
  };
  /// State tensors by place of their parameter; undefined until its first gradient.
  struct StateList {
    std::string name;     ///< "first_moment"
    TensorList* tensors;  ///< of the optimizer, which outlives the list
    /// The form of the state for `shape` elements of a parameter, all of them or some in a row; none if it has no state.
    std::function<std::optional<StateForm>(const Tensor& parameter, const Shape& shape)> form =
        [](const Tensor& parameter, const Shape& shape) {
          return std::optional(StateForm{state_dtype(parameter), shape});
        };
  };
  /// Makes what is kept of parameters of 16 bits part of the state: "master" or "remainder". Error naming `op` if it cannot be kept of
  /// one of f16.
  void add_state(const char* op, Masters& masters);

  /// Error if there is no parameter, or naming the place of one that is no leaf that requires a gradient, is not contiguous,
  /// is on another device than the first, or is there twice.
  explicit GroupOptimizer(std::vector<ParameterGroup> groups);
  /// Makes `tensors` part of the state.
  void add_state(StateList list);
  /// Groups, of which the options say neither rate nor decay: Error naming `op` if they do.
  static std::vector<ParameterGroup> checked(const char* op, std::vector<ParameterGroup> groups,
                                             const Setting& lr, const Setting& weight_decay);
  /// What each step checks. The first one warns of layers that no model registered.
  void check_step(double gradient_scale);
  static constexpr int64_t most_steps = int64_t(1) << 53;  ///< more than any run takes: counting on is safe
  /// The learning rate of a group's parameters.
  static double rate_of(const ParameterGroup& group) { return group.lr * group.lr_scale; }
  /// 1 (i64) where `found` says that step_if_finite makes its update, else 0; and makes room to count it.
  Tensor one_if_finite(const Tensor& found);
  void count(const Tensor& one) { counted_.add_(one); }  ///< what `one_if_finite` gave
  Tensor update_number() const;  ///< of the one that it counts, from 1, i64 on the device
  /// @{
  /// Calls body(group, parameter, place) for every parameter, in the order of the groups.
  template <class Body>
  void for_each(Body&& body) {
    size_t place = 0;
    for (ParameterGroup& group : groups_)
      for (Tensor& parameter : group.parameters) body(group, parameter, place++);
  }
  template <class Body>
  void for_each(Body&& body) const {
    size_t place = 0;
    for (const ParameterGroup& group : groups_)
      for (const Tensor& parameter : group.parameters) body(group, parameter, place++);
  }
  /// @}
  /// What this optimizer updates of a parameter, and keeps state of: all, unless ranks share it. It begins at a multiple
  /// of kernels::kSquaresPiece.
  virtual ElementRange owned(const Tensor& parameter, size_t place) const;
  bool is_whole(const Tensor& parameter, size_t place) const;  ///< whether it owns all of it
  /// That part, in the parameter's memory, unless ranks share that too: itself, or one dimension of it.
  virtual Tensor owned_part(const Tensor& parameter, size_t place) const;
  /// The gradient of that part of a parameter that has one, contiguous.
  virtual Tensor owned_gradient(const Tensor& parameter, size_t place) const;
  /// Places of the parameters that a step of AdamW or Sgd updates together, in its order; each part sorted. All at once, unless ranks
  /// share them.
  virtual std::vector<std::vector<size_t>> update_order() const;
  /// The step has updated a part of that order.
  virtual void updated(size_t part) { (void)part; }
  /// The state of a whole parameter, of which `own` is what this optimizer keeps; undefined if it is not to be had here.
  virtual Tensor whole_state(const StateList& list, const Tensor& parameter, size_t place,
                             const Tensor& own) const;
  /// What is counted for all parameters together: "steps".
  virtual nn::NamedTensors counts() const;
  /// Calls body(name, list, parameter, place, own) for each state tensor that there is.
  template <class Body>
  void for_each_state(Body&& body) const {
    for (const StateList& list : state_)
      for_each([&](const ParameterGroup&, const Tensor& parameter, size_t place) {
        // A parameter that is no longer of 16 bits has no use for what was kept of it.
        if (const Tensor& own = (*list.tensors)[place];
            own.defined() && list.form(parameter, parameter.shape()))
          body(std::to_string(place) + "." + list.name, list, parameter, place, own);
      });
  }
  /// Where the state of some elements begins in that of all, in the state's elements, and how many those are.
  static ElementRange state_range(const StateList& list, const Tensor& parameter,
                                  const ElementRange& elements);
  size_t parameter_count() const;          ///< tensors, over all groups
  size_t largest_parameter_bytes() const;  ///< of one tensor
  /// Zeros for the parameters that have none in `list`, of dtype state_dtype.
  void make_zeros(TensorList& list);

  std::vector<ParameterGroup> groups_;  ///< as given; their numbers may change
  int64_t steps_ = 0;  ///< updates by `step`; those by `step_if_finite` are counted on the device

 private:
  void check_devices();
  /// What a state that was saved gives this optimizer, in how many entries; nothing if it gives none.
  struct Given {
    Tensor value;
    size_t entries;
  };
  std::optional<Given> given_state(const std::map<std::string, Tensor>& state, const StateList& list,
                                   const Tensor& parameter, size_t place) const;

  std::vector<StateList> state_;
  Tensor counted_;  // i64 on the device: updates beside steps_ that step_if_finite made; undefined: none
  bool has_stepped_ = false;
};

/// Contiguous gradients of the parameters that have one.
TensorList contiguous_gradients(const TensorList& parameters);

/// The norm of all gradients as one vector, in f64. Tensors without a gradient count nothing. Error for each parameter, of
/// any optimizer, between GradScaler::scale on this thread and the unscale of its optimizer, or update.
double grad_norm(const TensorList& parameters);

/// What to multiply gradients by so that their norm is at most `max_norm`: min(1, max_norm / (norm + 1e-6)).
/// Error if the norm is NaN or inf: no factor helps then, and the update would spoil every parameter.
double clip_scale(double norm, double max_norm);

/// Cuts each element of the gradients off at +-max_value, in place. Error unless that is above 0, or of a scaled loss as in
/// grad_norm.
void clip_grad_value(const TensorList& parameters, double max_value);

/// Scales the gradients in place so that their norm is at most `max_norm`; returns the norm before.
double clip_grad_norm(const TensorList& parameters, double max_norm);

}  // namespace reprise::optim
