// What the tests of Offload share: a chain of layers with and without a store, and its results.
#pragma once

#include "reprise/autograd/recompute/offload/offload.h"
#include "reprise/core/random.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise::testing {

inline constexpr int64_t kRows = 64, kWidth = 32;
inline constexpr size_t kBytes = size_t(kRows * kWidth) * sizeof(float);  ///< what goes from layer to layer

/// A store for tensors of any size.
inline std::shared_ptr<Offload> all_sizes(int64_t resident_regions = 1) {
  return std::make_shared<Offload>(OffloadOptions{.resident_regions = resident_regions, .min_bytes = 1});
}

// Layers of linear, GELU and dropout, then the gradients of everything.
struct Chain {
  Tensor x = leaf({kRows, kWidth}, 1);
  TensorList weights;

  explicit Chain(int layers) {
    for (int i = 0; i < layers; ++i) weights.push_back(leaf({kWidth, kWidth}, 10 + uint64_t(i)));
  }
  static Tensor layer(const Tensor& x, const Tensor& w) { return dropout(gelu(linear(x, w, {})), 0.25); }

  template <class Run>
  Tensor forward(const Run& run) const {
    manual_seed(5);
    Tensor h = x;
    for (const Tensor& w : weights) h = run(w, h);
    return h;
  }
  template <class Run>
  TensorList train(const Run& run, bool retain = false) const {
    for (const Tensor& t : weights) t.set_grad({});
    x.set_grad({});
    Tensor y = forward(run);
    sum(y * numbers(y.shape(), 3)).backward({}, retain);
    TensorList out{y.detach(), x.grad()};
    for (const Tensor& w : weights) out.push_back(w.grad());
    return out;
  }
  TensorList plain() const {
    return train([](const Tensor& w, const Tensor& h) { return layer(h, w); });
  }
  static auto offloaded(const std::shared_ptr<Offload>& offload,
                        CheckpointMode mode = CheckpointMode::non_reentrant) {
    return [=](const Tensor& w, const Tensor& h) {
      return checkpoint([w](const Tensor& in) { return layer(in, w); }, h,
                        {.mode = mode, .offload = offload});
    };
  }
};

}  // namespace reprise::testing
