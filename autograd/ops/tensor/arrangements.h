// Views of several dimensions in another order.
#pragma once

#include "reprise/core/tensor.h"

namespace reprise {

/// A view with each dimension from[i] at place to[i], and the others in their order. Error where there are more of one than of the
/// other, and on one that is listed twice.
Tensor movedim(const Tensor& x, const Dims& from, const Dims& to);

}  // namespace reprise
