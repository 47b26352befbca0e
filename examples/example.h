// What the examples share: numbers that a program in another language has too, and how results are told.
#pragma once

#include <reprise/reprise.h>

#include <cmath>
#include <cstdio>

namespace rp = reprise;

/// scale sin(0), scale sin(k), scale sin(2 k), ... in row-major order.
inline rp::Tensor wave(const rp::Shape& shape, double k, double scale = 1) {
  return (rp::sin(rp::arange(rp::numel_of(shape)).to(rp::DType::f64) * k) * scale)
      .to(rp::DType::f32)
      .reshape(shape);
}

/// Gives the i-th parameter waves of its own, of about the size that layers begin with.
inline void fill(const rp::TensorList& parameters) {
  rp::NoGrad guard;
  double k = 1;
  for (const rp::Tensor& p : parameters)
    p.copy_(wave(p.shape(), k++, 1 / std::sqrt(double(p.shape()[p.shape().size() - 1]))));
}

inline void report(const char* name, double value) { std::printf("%s %.6f\n", name, value); }
