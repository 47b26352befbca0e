// Small models with values large enough that every parameter matters, and batches for them.
#pragma once

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/init.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::testing {

/// Normal values of deviation 0.3 everywhere; norms' scales around 1. GPT-2's initialisation would hide
/// biases (0) and make the blocks' contributions too small to compare.
inline void randomize(nn::Module& module, uint64_t seed = 7) {
  NoGrad guard;
  Generator generator(seed);
  for (auto& [name, parameter] : module.named_parameters()) {
    bool scale = name.find("ln_") != std::string::npos && name.ends_with("weight");
    parameter.copy_(nn::normal_init(parameter.shape(), 0.3, {}, &generator));
    if (scale) parameter.copy_(parameter + 1.0);
  }
}

/// Token ids in [0, vocab), the same in every run.
inline Tensor random_tokens(const Shape& shape, int64_t vocab, uint64_t seed) {
  std::vector<int64_t> ids(size_t(numel_of(shape)));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = int64_t(philox_block(seed, 0, i)[0] % uint64_t(vocab));
  return Tensor::from(ids, shape);
}

inline Tensor random_input(const Shape& shape, uint64_t seed = 3) {
  Generator generator(seed);
  return nn::normal_init(shape, 1, {}, &generator);
}

/// Odd sizes: 2 layers, 3 heads of 5.
inline nn::GptOptions odd_gpt() {
  return {.vocab_size = 23, .context = 11, .layers = 2, .heads = 3, .width = 15};
}

}  // namespace reprise::testing
