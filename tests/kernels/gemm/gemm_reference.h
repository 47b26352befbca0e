// gemm by three loops in f64, over any shapes, strides and dtypes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reprise/kernels/gemm/gemm.h"
#include "reprise/tests/kernels/gemm/activation_reference.h"

namespace reprise::kernels::testing {

inline double element_at(const TensorView& x, const Dims& index) {
  int64_t at = 0;
  for (int d = 0; d < x.rank(); ++d)
    at += (x.size(d) == 1 ? 0 : index[index.size() - x.rank() + d]) * x.stride(d);
  return dispatch_floating(x.dtype, "element_at", [&]<class T>() { return double(x.as<T>()[at]); });
}

/// What C and pre_activation have to hold, in the order of C's elements.
struct ExpectedProduct {
  std::vector<double> c, pre_activation;
};

inline ExpectedProduct product_reference(const TensorView& a, const TensorView& b, const TensorView& c,
                                         const Epilogue& e) {
  ExpectedProduct out;
  Dims index = Dims::filled(c.rank(), 0);
  for (int64_t flat = 0; flat < c.numel(); ++flat) {
    int64_t left = flat;
    for (int d = c.rank() - 1; d >= 0; left /= c.size(d--)) index[d] = left % c.size(d);
    double sum = 0;
    Dims at_a = index, at_b = index;
    for (int64_t k = 0; k < a.size(-1); ++k) {
      at_a[c.rank() - 1] = at_b[c.rank() - 2] = k;
      sum += element_at(a, at_a) * element_at(b, at_b);
    }
    if (e.dactivation) {
      sum *= activation_at(e.activation, element_at(e.dactivation, index)).slope;
    } else {
      if (e.bias) sum += element_at(e.bias, index);
      out.pre_activation.push_back(sum);
      sum = activation_at(e.activation, sum).value;
      if (e.scale) sum *= element_at(e.scale, {index[c.rank() - 1]});
      if (e.row_scale) sum *= element_at(e.row_scale, {index[0] / (c.size(0) / e.row_scale.size(0))});
      if (e.residual) sum += element_at(e.residual, index);
    }
    if (e.accumulate) sum += element_at(c, index);
    out.c.push_back(sum);
  }
  return out;
}

inline void expect_matrices(const TensorView& got, const std::vector<double>& want, double tolerance,
                            const char* what) {
  Dims index = Dims::filled(got.rank(), 0);
  for (int64_t flat = 0; flat < got.numel(); ++flat) {
    int64_t left = flat;
    for (int d = got.rank() - 1; d >= 0; left /= got.size(d--)) index[d] = left % got.size(d);
    ASSERT_NEAR(element_at(got, index), want[size_t(flat)], tolerance * (1 + std::abs(want[size_t(flat)])))
        << what << " at " << index << " of " << got.shape;
  }
}

}  // namespace reprise::kernels::testing
