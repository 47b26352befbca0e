// EvalScope: a model as it answers, not as it learns.
#pragma once

#include <utility>
#include <vector>

#include "reprise/autograd/grad_mode.h"
#include "reprise/nn/module.h"

namespace reprise::nn {

/// Evaluation mode, without a graph, while it lives. Then each module is in the mode that it was in: a norm that
/// was put into evaluation by itself stays so.
class EvalScope {
 public:
  /// The model has to outlive the scope. What is made inside cannot be saved for backward later (InferenceMode).
  explicit EvalScope(Module& model) {
    for (const auto& [name, module] : model.named_modules()) modes_.emplace_back(module, module->training());
    model.eval();
  }
  ~EvalScope() {
    for (const auto& [module, is_training] : modes_)
      module->train(is_training);  // parents come before children
  }
  EvalScope(const EvalScope&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> modes_;
  InferenceMode inference_;
};

}  // namespace reprise::nn
