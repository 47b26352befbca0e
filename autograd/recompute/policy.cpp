// Policies by names of operations.
#include "reprise/autograd/recompute/policy.h"

namespace reprise::recompute {

Policy::Policy(std::set<std::string, std::less<>> saved)
    : function_([saved = std::move(saved)](const PolicyOp& op) {
        return saved.contains(op.name) ? Decision::save : Decision::recompute;
      }) {}

Policy save_matmuls() { return {"matmul", "linear", "mlp", "conv2d", "attention", "packed_attention"}; }

Policy save_attention() { return {"attention", "packed_attention"}; }

Policy recompute_cheap() {
  static const std::set<std::string, std::less<>> cheap = {
      "layer_norm", "add_layer_norm", "rms_norm",  "add_rms_norm", "batch_norm", "batch_norm_inference",
      "relu",       "gelu",           "gelu_tanh", "silu",         "sigmoid",    "tanh",
      "swiglu",     "dropout"};
  return Policy(
      [](const PolicyOp& op) { return cheap.contains(op.name) ? Decision::recompute : Decision::save; });
}

}  // namespace reprise::recompute
