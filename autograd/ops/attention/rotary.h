// Rotary positions.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// Turns each pair of channels (i, i + D/2) of x (..., D) by an angle whose cosine and sine are given (Su et al. 2021, with the
/// pairs of Llama and Hugging Face): y[i] = x[i] cos[i] - x[i + D/2] sin[i], y[i + D/2] = x[i + D/2] cos[i] + x[i] sin[i]. The
/// tables are (..., D/2) and broadcast to x; they get no gradient and are all that is kept for it. In f32 for half types,
/// rounded once. Error unless D is even and the tables fit.
Tensor rotary(const Tensor& x, const Tensor& cosines, const Tensor& sines);

}  // namespace reprise
