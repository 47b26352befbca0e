// CastSeam: what autocast makes of the tensor arguments of one operation, by its policy. `Function::apply` is where it
// is asked, and functions made of several operations that are one row of the table.
#pragma once

#include <concepts>

#include "reprise/autograd/shadow.h"

namespace reprise::autograd {

class CastSeam {
 public:
  /// Of the arguments `given`, of which those in `kept`, bit i for the i-th, stay as they are. Casts are recorded here.
  CastSeam(amp::Policy policy, uint32_t kept, const TensorList& given);

  /// What the graph, observers and hooks see: weights, where `forward` gets their shadows.
  const TensorList& inputs() const { return inputs_; }
  /// The weight that x is a shadow of; undefined if it is none.
  Tensor weight_of(const Tensor& x) const;
  amp::Shadows shadows() const { return shadows_; }
  /// Whether autocast is on where one of the arguments lies.
  bool is_on() const { return is_on_; }
  /// 0 if it left all as they were given, else a number that tells what it did: an attribute of the operation.
  uint64_t attribute() const { return attribute_; }

  // The arguments for `forward`, in order.
  Tensor next(const Tensor&) { return values_[next_++]; }
  TensorList next(const TensorList& list) {
    const auto from = values_.begin() + int64_t(next_);
    next_ += list.size();
    return {from, from + int64_t(list.size())};
  }
  template <class T>
  requires(!std::derived_from<T, Tensor>) const T& next(const T& other) { return other; }

 private:
  void set(size_t i, DType dtype, amp::Shadows kept);
  amp::Shadows shadows_ = amp::Shadows::none;
  TensorList inputs_, values_;
  bool is_on_ = false;
  size_t next_ = 0;
  uint64_t attribute_ = 0;
};

/// For a function made of several operations: its arguments by `policy`, and autocast off while this lives.
class CastArguments {
 public:
  template <class... Tensors>
  explicit CastArguments(amp::Policy policy, const Tensors&... given)
      : CastArguments(policy, TensorList{given...}) {}
  CastArguments(amp::Policy policy, const TensorList& given) : arguments_(cast(policy, given)) {}
  const TensorList& all() const { return arguments_; }
  const Tensor& operator[](size_t i) const { return arguments_[i]; }

 private:
  static TensorList cast(amp::Policy policy, const TensorList& given);
  TensorList arguments_;
  amp::AutocastOff off_;  // from now on
};

}  // namespace reprise::autograd
