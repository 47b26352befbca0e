// Parameters with made-up gradients for tests of optimizers, and the same numbers in f64.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "reprise/autograd/ops.h"
#include "reprise/core/random.h"
#include "reprise/nn/optim/optimizer.h"
#include "reprise/tests/support/compare.h"

namespace reprise::testing {

using Doubles = std::vector<double>;

/// Uniform in (-1, 1), exact in f32: a pure function of the arguments.
inline Doubles numbers(size_t count, uint64_t seed, uint64_t step = 0) {
  Doubles out(count);
  for (size_t i = 0; i < count; ++i) out[i] = 2 * double(to_unit_float(philox_block(seed, step, i)[0])) - 1;
  return out;
}

inline Tensor tensor_of(const Doubles& values, const Shape& shape) {
  return Tensor::from(std::vector<float>(values.begin(), values.end()), shape);
}

inline Tensor parameter_of(const Shape& shape, uint64_t seed) {
  return tensor_of(numbers(size_t(numel_of(shape)), seed), shape).set_requires_grad();
}

/// Shapes of odd sizes, a scalar, one that crosses vectors.
inline const std::vector<Shape>& odd_shapes() {
  static const std::vector<Shape> shapes = {{3, 5}, {7}, {}, {129}};
  return shapes;
}

inline TensorList odd_parameters() {
  TensorList parameters;
  for (const Shape& shape : odd_shapes()) parameters.push_back(parameter_of(shape, parameters.size()));
  return parameters;
}

/// Sets the gradients of step `step`; parameter p has none if `has(p, step)` says so.
template <class Has>
void set_gradients(const TensorList& parameters, uint64_t step, Has&& has) {
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Shape& shape = parameters[p].shape();
    parameters[p].set_grad(has(p, step) ? tensor_of(numbers(size_t(numel_of(shape)), 100 + p, step), shape)
                                        : Tensor());
  }
}
inline void set_gradients(const TensorList& parameters, uint64_t step) {
  set_gradients(parameters, step, [](size_t, uint64_t) { return true; });
}

inline nn::NamedTensors copy_of(const nn::NamedTensors& state) {
  nn::NamedTensors copies;
  for (const auto& [name, tensor] : state) copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

/// What `Make(parameters)` makes goes on from a state saved after `before` steps exactly as if it had never
/// stopped.
template <class Make>
void expect_exact_resume(Make&& make) {
  auto has = [](size_t p, uint64_t step) { return p != 2 || step >= 4; };  // one starts late
  for (uint64_t before : {0, 1, 3, 5}) {
    TensorList first = odd_parameters(), second;
    auto stopped = make(first);
    for (uint64_t step = 0; step < before; ++step) {
      set_gradients(first, step, has);
      stopped->step();
    }
    nn::NamedTensors state = copy_of(stopped->state_dict());
    std::reverse(state.begin(), state.end());  // files keep another order
    for (const Tensor& p : first) second.push_back(p.detach().clone().set_requires_grad());
    auto resumed = make(second);
    set_gradients(second, 77);
    resumed->step();  // what was there before must be gone after loading
    for (size_t p = 0; p < second.size(); ++p) second[p].detach().copy_(first[p].detach());
    resumed->load_state_dict(state);
    EXPECT_EQ(resumed->steps(), int64_t(before));
    for (uint64_t step = before; step < 7; ++step) {
      set_gradients(first, step, has);
      set_gradients(second, step, has);
      stopped->step();
      resumed->step();
    }
    EXPECT_TRUE(same_bits(second, first)) << "stopped after " << before;
    nn::NamedTensors want = stopped->state_dict(), got = resumed->state_dict();
    EXPECT_TRUE(same_bits(got, want));
  }
}

}  // namespace reprise::testing
