// What Lamb and Lars share: steps as long as a share of the norm of what they change.
#pragma once

#include "reprise/autograd/ops.h"

namespace reprise::optim {

/// One number, where the tensor is: the host need not wait for it.
inline Tensor norm_of(const Tensor& x) { return sqrt(sum(square(x))); }

/// `ratio` where both norms are above 0, else 1.
inline Tensor trusted(const Tensor& ratio, const Tensor& weight_norm, const Tensor& update_norm) {
  Tensor one = scalar(1, ratio.dtype(), ratio.device()), zero = scalar(0, ratio.dtype(), ratio.device());
  return where(greater(weight_norm, zero), where(greater(update_norm, zero), ratio, one), one);
}

/// Error for parameters of half types, of which these optimizers keep no copy in f32.
inline void check_full_precision(const char* op, const Tensor& parameter, size_t place) {
  check(size_of(parameter.dtype()) >= 4, op, ": parameter ", place, " is ", parameter.dtype(),
        "; f32 and f64 are taken");
}

}  // namespace reprise::optim
