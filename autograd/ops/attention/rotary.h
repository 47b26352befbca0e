// Rotary positions.
#pragma once

#include <optional>

#include "reprise/core/tensor.h"
#include "reprise/kernels/attention/rotary_pairs.h"

namespace reprise {

using kernels::RotaryPairs;

/// What `rotary` turns, and into what.
struct RotaryOptions {
  RotaryPairs pairs = RotaryPairs::halves;  ///< which channels are turned together
  /// The dtype of the result, with the bits of the operation in f32 and a cast; f64 for f64 alone. None: that of x.
  std::optional<DType> out{};
};

/// Turns each pair of channels (a, b) of x (..., D), (i, i + D/2) or (2 i, 2 i + 1), by an angle whose cosine and sine are given (Su
/// et al. 2021): y[a] = x[a] cos[i] - x[b] sin[i], y[b] = x[b] cos[i] + x[a] sin[i]. The tables are (..., D/2) and broadcast to
/// x; they get no gradient and are all that is kept for it. In f32 for half types, rounded once. Error unless D is even, the tables fit and
/// `out` does.
Tensor rotary(const Tensor& x, const Tensor& cosines, const Tensor& sines, const RotaryOptions& options = {});

}  // namespace reprise
