// Functions of one number beside those of autograd/ops.h.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

// Whole numbers near x, and its sign; their gradient is 0. Integers are what they are.
Tensor floor(const Tensor& x);  ///< the largest whole number that is not above x; gradient 0
Tensor ceil(const Tensor& x);   ///< the smallest whole number that is not below x; gradient 0
Tensor round(const Tensor& x);  ///< halves to the even neighbour
Tensor trunc(const Tensor& x);  ///< towards 0
Tensor sign(const Tensor& x);   ///< -1, 0 or 1; 0 of NaN, as in PyTorch

Tensor log1p(const Tensor& x);  ///< log(1 + x), to all digits near 0
Tensor expm1(const Tensor& x);  ///< e^x - 1, to all digits near 0

Tensor softplus(const Tensor& x);  ///< log(1 + e^x)
/// log(1 + e^(beta x)) / beta, but x itself where beta x > threshold, as PyTorch's.
Tensor softplus(const Tensor& x, double beta, double threshold = 20);
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  ///< x where x > 0, else slope x (Maas et al. 2013)
Tensor elu(const Tensor& x, double alpha = 1);  ///< x where x > 0, else alpha (e^x - 1) (Clevert et al. 2016)

}  // namespace reprise
