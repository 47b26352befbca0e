// OpObserver: is told of every differentiable operation that runs on its thread, recorded or not, just before
// the operation saves its tensors. Traces and recompute stand on it.
#pragma once

#include <optional>

#include "reprise/autograd/attributes.h"
#include "reprise/autograd/op_cost.h"
#include "reprise/autograd/op_interceptor.h"
#include "reprise/core/data_observer.h"
#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// What is asked of an operation.
struct OpCall {
  const char* name;          ///< lives as long as the program
  const TensorList& inputs;  ///< its tensor arguments; undefined: an absent one
  Attributes attributes{};   ///< its other arguments
  OpCost cost{};             ///< as the operation declares it
  bool replaceable = false;  ///< interceptors are asked for its results next
};

/// Observes while it lives; those around it go on observing. What an observer computes is not itself
/// observed.
class OpObserver {
 public:
  OpObserver();
  virtual ~OpObserver();
  OpObserver(const OpObserver&) = delete;
  OpObserver& operator=(const OpObserver&) = delete;

  /// An operation is called: before anything else.
  virtual void op_begins(const OpCall&) {}
  /// An operation gave `outputs`: after its forward, just before it saves tensors for backward.
  virtual void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) = 0;
  /// A factory made `y`, of no tensors: `call` has none.
  virtual void made(const OpCall&, const Tensor&) {}
  /// A method of Tensor is about to change the first input in place; it reads the others that are defined.
  virtual void will_write(const OpCall&) {}
  /// A recorded one: the result, `now`, has taken the place of what was announced, which is `before`.
  virtual void took_place(const Tensor& /*before*/, const Tensor& /*now*/) {}
  /// Whether a recorded operation in place may write into the memory of x, which nothing else has: see Overwrite. One that says
  /// no makes it a copy.
  virtual bool lets_overwrite(const Tensor& /*x*/) const { return true; }
  /// `detach` makes a tensor that has the data of x, by no operation.
  virtual void detached(const Tensor& /*x*/) {}
  /// Code outside of operations is about to read or write the data of x.
  virtual void data_asked(const Tensor&) {}
  /// A backward pass is about to run.
  virtual void backward_begins() {}

  /// @{
  /// Tells all observers of this thread.
  static void notify_begin(const OpCall& call);
  static void notify(const char* op_name, const TensorList& inputs, const TensorList& outputs);
  static void notify_made(const char* factory, const Tensor& y, const Attributes& attributes);
  static void notify_write(const OpCall& call);
  static void notify_took_place(const Tensor& before, const Tensor& now);
  static void notify_detached(const Tensor& x);
  static void notify_data(const Tensor& x);
  static void notify_backward();
  /// @}
  static bool any();  ///< whether there are any on this thread
  /// Whether all of them let x's memory be written.
  static bool all_let_overwrite(const Tensor& x);

 private:
  template <class Tell>
  static void tell_all(const Tell& tell);

  OpObserver* outer_;
  SetDataObserver data_;
};

/// While it lives, operations that run on this thread are parts of another one.
class InsideOp {
 public:
  /// What they are parts of; a region is one of recompute.
  enum class Of : uint8_t { operation, region };
  explicit InsideOp(Of what = Of::operation);  ///< of what
  ~InsideOp();
  InsideOp(const InsideOp&) = delete;
  static int depth();            ///< how many live on this thread
  static int operation_depth();  ///< ... that are of operations

 private:
  Of what_;
  std::optional<SetDataObserver> no_data_;  // an operation's own
};

/// While it lives, the observers and interceptors around it see nothing.
class HideOpObservers {
 public:
  HideOpObservers();
  ~HideOpObservers();
  HideOpObservers(const HideOpObservers&) = delete;

 private:
  OpObserver* hidden_;
  HideOpInterceptors no_interceptors_;
  SetDataObserver no_data_{nullptr};
};

}  // namespace reprise::autograd
