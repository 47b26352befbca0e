// Policies by names of operations.
#include "reprise/autograd/recompute/policy.h"

namespace reprise::recompute {

Policy::Policy(std::set<std::string, std::less<>> saved)
    : function_([saved = std::move(saved)](const PolicyOp& op) {
        return saved.contains(op.name) ? Decision::save : Decision::recompute;
      }) {}

Policy save_matmuls() { return {"matmul", "linear", "mlp", "conv2d", "attention", "packed_attention"}; }

Policy save_attention() { return {"attention", "packed_attention"}; }

// Note [Cheap]
// Operations for each number of the result: about 10 for a norm or an activation, 2 T for causal attention
// over T positions, 2 C for a projection from C channels. A transformer block of 24 C^2 + 2 T C operations a
// token keeps 12 C numbers; norms, attention and the projection after it give 4 C of them for 2 C^2 + 2 T C.
// The products for qkv and the MLP cost as much a number, but there are so many that they would be dear.
Policy recompute_cheap() {
  static const std::set<std::string, std::less<>> always = {
      "layer_norm", "add_layer_norm", "rms_norm",  "add_rms_norm", "batch_norm", "batch_norm_inference",
      "relu",       "gelu",           "gelu_tanh", "silu",         "sigmoid",    "tanh",
      "swiglu",     "dropout"};
  auto is_cheap = [](const PolicyOp& op) {
    if (op.name == "packed_attention") return op.results[0][1] <= op.results[0][2];  // (B, T, C)
    if (op.name == "attention" && op.inputs.size() == 3)  // k (B, H_kv, S, D) -> (B, H, T, D)
      return op.inputs[1][2] <= op.results[0][1] * op.results[0][3];
    if (op.name == "linear" && op.inputs.size() == 4)  // with a residual, from no more channels than it has
      return op.inputs[3].size() > 0 && op.inputs[0].back() <= op.results[0].back();
    return always.contains(op.name);
  };
  return Policy([=](const PolicyOp& op) { return is_cheap(op) ? Decision::recompute : Decision::save; });
}

}  // namespace reprise::recompute
