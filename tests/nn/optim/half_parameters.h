// Parameters of 16 bits with made-up gradients, for tests of optimizers.
#pragma once

#include <bit>

#include "reprise/nn/optim/optimizer.h"
#include "reprise/tests/nn/optim/parameters.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::testing {

inline TensorList half_parameters(DType dtype) {
  TensorList parameters;
  for (const Tensor& x : odd_parameters())
    parameters.push_back(x.detach().to(dtype).to(test_device()).set_requires_grad());
  return parameters;
}

/// In the dtype that each parameter's gradient has.
inline void set_half_gradients(const TensorList& parameters, uint64_t step) {
  for (size_t p = 0; p < parameters.size(); ++p) {
    const Tensor& x = parameters[p];
    Tensor gradient = tensor_of(numbers(size_t(x.numel()), 100 + p, step), x.shape());
    x.set_grad(gradient.to(x.grad_dtype()).to(x.device()));
  }
}

inline Tensor state_of(const optim::Optimizer& optimizer, const std::string& name) {
  for (const auto& [found, tensor] : optimizer.state_dict())
    if (found == name) return tensor;
  return {};
}

inline TensorList copies_of(const TensorList& parameters) {
  TensorList copies;
  for (const Tensor& p : parameters) copies.push_back(p.detach().clone().set_requires_grad());
  return copies;
}

/// Of f32 elements.
inline std::vector<uint32_t> bits_of(const Tensor& x) {
  std::vector<uint32_t> bits;
  for (const float number : x.to(Device()).to_vector<float>())
    bits.push_back(std::bit_cast<uint32_t>(number));
  return bits;
}

/// (p << 16) + r of each element of a split parameter.
inline std::vector<uint32_t> joined_bits(const Tensor& parameter, const Tensor& remainder) {
  std::vector<uint32_t> bits = bits_of(parameter.detach().to(DType::f32));
  const std::vector<int64_t> bytes = remainder.to(Device()).to_vector<int64_t>();
  for (size_t i = 0; i < bits.size(); ++i)
    bits[i] += uint32_t(int32_t(int16_t(bytes[2 * i] + 256 * bytes[2 * i + 1])));
  return bits;
}

/// Whether two optimizers have the same state, to the bit.
inline void expect_same_state(const optim::Optimizer& got, const optim::Optimizer& want) {
  const nn::NamedTensors a = got.state_dict(), b = want.state_dict();
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < b.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_TRUE(same_bits(a[i].second, b[i].second)) << b[i].first;
  }
}

}  // namespace reprise::testing
