// Gradcheck: compares backward with central differences, in f64. The test that every differentiable function
// has to pass, the user's own included.
#pragma once

#include <cstdint>
#include <functional>

#include "reprise/core/tensor.h"

namespace reprise::autograd {

/// How `gradcheck` and `gradgradcheck` step, compare and repeat.
struct GradcheckOptions {
  double step = 1e-5;       ///< h of (f(x + h) - f(x - h)) / 2h, times max(1, |x|)
  double tolerance = 1e-6;  ///< on |analytic - numeric|, times max(1, |numeric|)
  uint64_t seed = 0;        ///< of the output gradients
  /// Also runs fn and backward on the same numbers in other layouts, of inputs and of output gradients: with gaps between the
  /// elements, transposed, and beginning within their storage; and on output gradients that are one number for all elements, as
  /// `sum().backward()` gives them. They must give the same gradients within `tolerance`.
  bool strided = true;
  /// Also runs backward without the gradient of each output in turn, where there are several: it must give what zeros in its place
  /// give. A Function that takes undefined gradients gets one then. (PyTorch: check_undefined_grad.)
  bool undefined = true;
  /// Also runs fn and backward twice more on the same inputs: outputs and gradients may differ by at most
  /// `nondeterminism`; below 0, this is not checked.
  double nondeterminism = 0;
};

/// Several tensors to several tensors. Called many times: it must give the same values for the same inputs.
using TensorFunction = std::function<TensorList(const TensorList&)>;

/// Checks the gradient of every element of every input that requires grad, for random output gradients. The
/// inputs that require grad must be f64; they are copied, no `grad` is touched. True, or throws Error naming
/// the input, the element, and both gradients. Error as well if layout or repetition change them. (h = 1e-5
/// balances the two errors of a central difference in f64: truncation, about h^2, and cancellation, about
/// 1e-16 / h.)
bool gradcheck(const TensorFunction& fn, const TensorList& inputs, const GradcheckOptions& options = {});

/// Gradcheck of the gradient: differentiates backward itself, in the inputs and in the output gradients. Also
/// checks that create_graph gives the gradient that a plain pass gives.
bool gradgradcheck(const TensorFunction& fn, const TensorList& inputs, const GradcheckOptions& options = {});

}  // namespace reprise::autograd

namespace reprise {
using autograd::gradcheck;
using autograd::GradcheckOptions;
using autograd::gradgradcheck;
}  // namespace reprise
