// The bits of a short training, which no strategy of recompute may change.
#pragma once

#include <functional>

#include "reprise/nn/module.h"
#include "reprise/nn/optim/ema.h"
#include "reprise/nn/optim/optimizer.h"

namespace reprise::testing {

/// Losses, gradients, weights, statistics and averages of two updates from `micros` micro-batches each. `loss` is
/// given the number of its micro-batch, from 0 to 2 micros - 1; `prepare` that of the update, before it.
inline TensorList two_updates(
    nn::Module& model, optim::Optimizer& optimizer, int micros, const std::function<Tensor(uint64_t)>& loss,
    const std::function<void(int)>& prepare = [](int) {}) {
  optim::Ema ema(model, 0.9);
  TensorList bits;
  for (int update = 0; update < 2; ++update) {
    prepare(update);
    for (int micro = 0; micro < micros; ++micro) {
      Tensor of_batch = loss(uint64_t(update * micros + micro));
      of_batch.backward();
      bits.push_back(of_batch.detach());
    }
    for (const Tensor& parameter : model.parameters()) bits.push_back(parameter.grad());
    optimizer.step();
    optimizer.zero_grad();
    ema.update();
  }
  for (const auto& [name, tensor] : model.state_dict()) bits.push_back(tensor.detach());
  for (const auto& [name, tensor] : ema.state_dict()) bits.push_back(tensor);
  return bits;
}

}  // namespace reprise::testing
