// The ways to run a forward and a backward pass that must all give the same bits: threads, saved tensors
// packed and unpacked, a graph kept and used again. Recompute modes join here.
#pragma once

#include <string>
#include <vector>

#include "reprise/tests/support/op_case.h"

namespace reprise::testing {

struct RunResult {
  Tensor output;
  TensorList grads;  ///< one for each input, undefined where none is due
};

struct RunMode {
  std::string name;
  std::function<RunResult(const OpFunction& fn, const TensorList& inputs, const Tensor& dy)> run;
};

/// The first is the plain one.
const std::vector<RunMode>& run_modes();

}  // namespace reprise::testing
