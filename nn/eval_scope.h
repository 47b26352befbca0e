// EvalScope: a model as it answers, not as it learns.
#pragma once

#include <set>
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
    std::set<Module*> seen;
    visit(model, seen);
    model.eval();
  }
  ~EvalScope() {
    // What `train` says of a module it says of all below it, so those come later.
    for (auto mode = modes_.rbegin(); mode != modes_.rend(); ++mode) mode->first->train(mode->second);
  }
  EvalScope(const EvalScope&) = delete;

 private:
  // Each module once, behind all below it: one may be a child of several.
  void visit(Module& module, std::set<Module*>& seen) {
    if (!seen.insert(&module).second) return;
    for (const auto& [name, child] : module.named_children()) visit(*child, seen);
    modes_.emplace_back(&module, module.training());
  }

  std::vector<std::pair<Module*, bool>> modes_;
  InferenceMode inference_;
};

}  // namespace reprise::nn
