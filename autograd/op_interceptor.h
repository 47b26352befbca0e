// OpInterceptor: is asked before each differentiable operation that runs on its thread, and may give the
// results in its place. (PyTorch: a dispatch mode.) Replays stand on it.
#pragma once

#include <optional>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// Is asked while it lives; those around it are asked next. What it computes is neither observed nor asked
/// about.
class OpInterceptor {
 public:
  OpInterceptor();
  virtual ~OpInterceptor();
  OpInterceptor(const OpInterceptor&) = delete;
  OpInterceptor& operator=(const OpInterceptor&) = delete;

  /// The results to use in place of running the operation: then it runs no forward, saves nothing, and no
  /// observer is told that it ran.
  virtual std::optional<TensorList> replacement(const char* op_name, const TensorList& inputs) = 0;
  /// Before the forward of an operation: whether its results will be read, or only what it saves. It may
  /// leave results that are not wanted hollow.
  virtual bool wants_results() { return true; }

  /// Asks all of this thread, the innermost first.
  static std::optional<TensorList> find_replacement(const char* op_name, const TensorList& inputs);
  /// Whether there are any, and none wants the results of the operation.
  static bool all_want_no_results();

 private:
  OpInterceptor* outer_;
};

/// While it lives, the interceptors around it are not asked.
class HideOpInterceptors {
 public:
  HideOpInterceptors();
  ~HideOpInterceptors();
  HideOpInterceptors(const HideOpInterceptors&) = delete;

 private:
  OpInterceptor* hidden_;
};

}  // namespace reprise::autograd
