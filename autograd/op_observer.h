// OpObserver: sees every differentiable operation that runs on its thread, recorded or not, just before the
// operation saves its tensors. It may also give the results, so that the operation does not run. Traces and
// recompute stand on it.
#pragma once

#include <optional>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Observes while it lives; those around it go on observing. What an observer computes is not itself
/// observed.
class OpObserver {
 public:
  OpObserver();
  virtual ~OpObserver();
  OpObserver(const OpObserver&) = delete;
  OpObserver& operator=(const OpObserver&) = delete;

  /// `op_name` lives as long as the program.
  virtual void op_ran(const char* op_name, const TensorList& inputs, const TensorList& outputs) = 0;
  /// A method of Tensor is about to change x in place.
  virtual void will_write(const char* method, const Tensor& x);
  /// A backward pass is about to run.
  virtual void backward_begins() {}

  /// Before an operation: the results to use in place of running it. Then it runs no forward, saves nothing,
  /// and `op_ran` is not called.
  virtual std::optional<TensorList> replacement(const char*, const TensorList&) { return {}; }
  /// Before the forward of an operation: whether its results will be read, or only what it saves. It may
  /// leave results that are not wanted hollow.
  virtual bool wants_results() { return true; }

  /// Tells all observers of this thread.
  static void notify(const char* op_name, const TensorList& inputs, const TensorList& outputs);
  /// Asks all observers of this thread, the innermost first.
  static std::optional<TensorList> find_replacement(const char* op_name, const TensorList& inputs);
  static bool all_want_no_results();
  static void notify_write(const char* method, const Tensor& x);
  static void notify_backward();

 private:
  OpObserver* outer_;
};

/// While it lives, operations that run on this thread are parts of another one.
class InsideOp {
 public:
  InsideOp();
  ~InsideOp();
  InsideOp(const InsideOp&) = delete;
  static int depth();  ///< how many live on this thread
};

/// While it lives, the observers around it see nothing.
class HideOpObservers {
 public:
  HideOpObservers();
  ~HideOpObservers();
  HideOpObservers(const HideOpObservers&) = delete;

 private:
  OpObserver* hidden_;
};

}  // namespace reprise::autograd
