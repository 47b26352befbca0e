// A block as a user writes one.
#pragma once

#include "reprise/autograd/ops.h"
#include "reprise/nn/linear.h"

namespace reprise::testing {

template <int64_t width>
struct ResearchBlock : nn::Layer {
  nn::Linear up{width, 4 * width}, down{4 * width, width};
  ResearchBlock() {
    register_module("up", up);
    register_module("down", down);
  }
  Tensor forward(const Tensor& x) override { return x + dropout(down(gelu(up(x))), 0.1); }
};

}  // namespace reprise::testing
