// What parity tests share: how far numbers are from a reference, and inputs that a formula makes on both sides.
#pragma once

#include <cmath>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::testing {

/// Relative, in L2; infinite where there are not as many.
inline double relative_distance(const std::vector<double>& got, const std::vector<double>& want) {
  if (got.size() != want.size()) return double(INFINITY);
  double difference = 0, norm = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    difference += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(difference / norm);
}
inline double relative_distance(const Tensor& got, const Tensor& want) {
  return relative_distance(got.detach().to_vector<double>(), want.to_vector<double>());
}

/// formula_images of tools/parity_vision.py, in f64.
inline Tensor formula_images(const Shape& shape) {
  std::vector<double> values(size_t(numel_of(shape)));
  for (uint32_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(0.37 * double(i)) + std::ldexp(double(uint32_t(i * i * 2654435761u)), -32);
  return Tensor::from(values, shape);
}

}  // namespace reprise::testing
