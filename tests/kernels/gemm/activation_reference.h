// The activations and their derivatives in f64, by libm.
#pragma once

#include <algorithm>
#include <cmath>

#include "reprise/kernels/elementwise/activation.h"

namespace reprise::kernels::testing {

struct ValueAndSlope {
  double value, slope;
};

inline ValueAndSlope activation_at(Activation activation, double x) {
  switch (activation) {
    case Activation::none:
      break;
    case Activation::relu:
      return {std::max(x, 0.0), double(x > 0)};
    case Activation::gelu: {
      const double cdf = 0.5 * std::erfc(-x / std::sqrt(2.0)),
                   density = std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
      return {x * cdf, cdf + x * density};
    }
    case Activation::gelu_tanh: {
      const double scale = std::sqrt(2 / M_PI), t = std::tanh(scale * (x + 0.044715 * x * x * x));
      return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x)};
    }
    case Activation::silu: {
      const double s = 1 / (1 + std::exp(-x));
      return {x * s, s * (1 + x * (1 - s))};
    }
  }
  return {x, 1};
}

}  // namespace reprise::kernels::testing
