// OpObserver: sees every differentiable operation that runs on its thread, recorded or not, just before the
// operation saves its tensors. Traces and recompute stand on it.
#pragma once

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

  /// Tells all observers of this thread.
  static void notify(const char* op_name, const TensorList& inputs, const TensorList& outputs);

 private:
  OpObserver* outer_;
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
