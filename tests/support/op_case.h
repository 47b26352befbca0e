// OpCase: one description of a differentiable op gives all its tests. What is tried (devices, dtypes,
// layouts, ways to run) is written down once, in op_case.cpp; a new device or recompute mode is one line
// there and reaches every op.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprise/core/tensor.h"
#include "reprise/tests/support/compare.h"

namespace reprise::testing {

/// Random numbers uniform in [low, high), the same in every run.
struct OpInput {
  Shape shape;
  double low = -2;
  double high = 2;
  bool either_sign = false;   ///< half of them negated: for kinks and poles at zero, with low > 0
  bool requires_grad = true;  ///< false for what the op is not differentiable in
  Tensor values{};            ///< used as they are instead, without gradient: indices, conditions
};

/// A dtype for each argument and for the result.
struct OpDTypes {
  std::vector<DType> inputs;
  DType output;
};

using OpFunction = std::function<Tensor(const TensorList&)>;

struct OpCase {
  std::string name;
  std::vector<OpInput> inputs;
  OpFunction fn;

  /// The same function from simpler ops, run in f64: the oracle of values and gradients.
  OpFunction composite{};
  /// The forward values by plain loops, where there is no composite: one of the two is needed. Gradients are then compared with those
  /// of `fn` in f64, which gradcheck tests.
  std::function<std::vector<double>(const TensorList&)> reference{};

  /// Roundings, in units of the dtype's roundoff, that an element may see; more for long chains of ops.
  double roundings = 8;
  bool differentiable_twice = true;
  bool sums_bias_with_weight = false;  ///< a product may give the gradients of a weight and its bias together
  std::vector<OpInput> empty_inputs{};  ///< a second set, with a dimension of size 0
  std::vector<OpInput> large_inputs{};  ///< big enough for several threads
  /// These, instead of one dtype for all, which is each in turn; then there is a composite.
  std::optional<OpDTypes> dtypes{};
};

/// Tries everything the op promises; failures say which part, dtype and layout.
void check_op(const OpCase& op);

}  // namespace reprise::testing
