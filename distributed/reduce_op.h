// ReduceOp: what a reduction makes of the numbers of several ranks.
#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/core/dtype.h"

namespace reprise::distributed {

/// min and max are NaN where any of their numbers is; mean is the sum divided by the count, of floating numbers alone.
enum class ReduceOp : uint8_t { sum, mean, min, max };

std::string_view name_of(ReduceOp op);  ///< "sum", ...

/// Error naming `operation` if `op` is not defined for `dtype`: nothing is for bool, no mean for integers.
void check_reducible(std::string_view operation, ReduceOp op, DType dtype);

}  // namespace reprise::distributed
