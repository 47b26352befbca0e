// A small net, tensors to stand for its own, and the same net without modules.
#pragma once

#include "reprise/nn/functional_call.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::testing {

struct Net : nn::Layer {
  nn::Linear hidden{4, 6, {}, test_device()}, out{6, 3, {}, test_device()};
  Net() {
    register_module("hidden", hidden);
    register_module("out", out);
  }
  Tensor forward(const Tensor& x) override { return out(tanh(hidden(x))); }
};

inline Tensor plain(const TensorList& w, const Tensor& x) {
  return linear(tanh(linear(x, w[0], w[1])), w[2], w[3]);
}

/// In the order of `named_parameters`.
inline nn::NamedTensors named(const TensorList& w) {
  return {{"hidden.weight", w[0]}, {"hidden.bias", w[1]}, {"out.weight", w[2]}, {"out.bias", w[3]}};
}

/// Leaves of a Net's shapes.
inline TensorList bases() { return {leaf({6, 4}, 11), leaf({6}, 12), leaf({3, 6}, 13), leaf({3}, 14)}; }

/// What tensors have, to be compared later.
struct Kept {
  TensorList handles, values, gradients;
  std::vector<uint64_t> versions, storages;
  explicit Kept(const TensorList& tensors) : handles(tensors) {
    for (const Tensor& x : tensors) {
      values.push_back(x.detach().clone());
      gradients.push_back(x.grad());
      versions.push_back(x.version());
      storages.push_back(x.storage()->id());
    }
  }
  void expect_untouched() const {
    for (size_t i = 0; i < handles.size(); ++i) {
      EXPECT_TRUE(same_bits(handles[i].detach(), values[i])) << i;
      EXPECT_EQ(handles[i].version(), versions[i]) << i;
      EXPECT_EQ(handles[i].storage()->id(), storages[i]) << i;
      EXPECT_TRUE(handles[i].is_leaf() && handles[i].requires_grad()) << i;
      EXPECT_TRUE(handles[i].grad().is_same(gradients[i])) << i;
    }
  }
};

/// What operations make of each.
inline TensorList results_of(const TensorList& base) {
  TensorList w;
  for (const Tensor& b : base) w.push_back(b * 0.5 + 0.1);
  return w;
}

}  // namespace reprise::testing
