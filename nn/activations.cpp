#include "reprise/nn/activations.h"

namespace reprise::nn {

Softplus::Softplus(double beta) : Lambda([beta](const Tensor& x) { return softplus(x, beta); }), beta_(beta) {
  check(beta > 0, "Softplus: beta is ", beta, ", should be above 0");
}

}  // namespace reprise::nn
