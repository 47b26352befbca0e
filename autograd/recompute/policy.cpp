// Policies by what operations cost.
#include "reprise/autograd/recompute/policy.h"

#include <algorithm>

namespace reprise::recompute {

Policy::Policy(std::set<std::string, std::less<>> saved)
    : function_([saved = std::move(saved)](const PolicyOp& op) {
        return saved.contains(op.name) ? Decision::save : Decision::recompute;
      }) {}

namespace {

using Kind = autograd::OpCost::Kind;

Decision save_if(bool saved) { return saved ? Decision::save : Decision::recompute; }

}  // namespace

Policy save_matmuls() {
  return Policy([](const PolicyOp& op) {
    return save_if(op.cost.kind == Kind::product || op.cost.kind == Kind::attention);
  });
}

Policy save_attention() {
  return Policy([](const PolicyOp& op) { return save_if(op.cost.kind == Kind::attention); });
}

// Note [Cheap]
// Operations per number of the result: about 10 for a norm or an activation, 2 T for causal attention over T
// positions (or within a window of T keys), 2 C for a projection from C channels. A transformer block of 24 C^2 + 2 T C operations per token
// keeps 12 C numbers; norms, attention and the projection after it give 4 C of them for 2 C^2 + 2 T C. The
// products for qkv and the MLP cost as much per number, but there are so many that they would be dear.
Policy recompute_cheap() {
  return Policy([](const PolicyOp& op) {
    const autograd::OpCost& cost = op.cost;
    if (cost.kind == Kind::pointwise) return Decision::recompute;
    bool adds_residual = cost.residual >= 0 && op.inputs[size_t(cost.residual)].size() > 0;
    if (cost.kind != Kind::attention && !adds_residual) return Decision::save;
    auto [length, channels] = cost.sums({op.inputs, op.results});
    if (cost.most_keys > 0) length = std::min(length, cost.most_keys);
    return save_if(length > channels);
  });
}

}  // namespace reprise::recompute
