// Trace: the operations that a region ran, for debug output and for comparing values.
#pragma once

#include <string>
#include <vector>

#include "reprise/core/tensor.h"

namespace reprise::recompute {

/// A hash of shape, dtype and every bit, whatever the strides and the device.
uint64_t hash_of(const Tensor& x);

struct TracedOp {
  const char* name = nullptr;
  std::string results{};  ///< "f32(3, 4)"
  uint64_t hash = 0;      ///< of the results; 0 where values are not compared
};

using Trace = std::vector<TracedOp>;

TracedOp traced(const char* name, const TensorList& results, bool with_hash);

/// Two columns, a line for each operation; lines that differ are marked.
std::string side_by_side(const Trace& first, const Trace& replay);

}  // namespace reprise::recompute
