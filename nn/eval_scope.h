// EvalScope: a model as it answers, not as it learns.
#pragma once

#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// Evaluation mode, without a graph, while it lives. Then the model is in the mode that it was in, and so is all below
/// it that is not frozen, whatever mode that had of its own.
class EvalScope {
 public:
  /// The model has to outlive the scope. What is made inside cannot be saved for backward later (InferenceMode).
  explicit EvalScope(Module& model) : model_(model), was_training_(model.training()) { model.eval(); }
  ~EvalScope() { model_.train(was_training_); }
  EvalScope(const EvalScope&) = delete;

 private:
  Module& model_;
  bool was_training_;
  InferenceMode inference_;
};

}  // namespace reprise::nn
