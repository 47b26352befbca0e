// Reduces the same range of several ranks, element by element, in the order of a tree.
#pragma once

#include <span>

#include "reprise/core/dtype.h"
#include "reprise/distributed/tree.h"

namespace reprise::distributed {

/// min and max are NaN where any of their numbers is; mean is the sum divided by the count, of floating numbers alone.
enum class ReduceOp : uint8_t { sum, mean, min, max };

std::string_view name_of(ReduceOp op);  ///< "sum", ...

/// Error naming `operation` if `op` is not defined for `dtype`: nothing is for bool, no mean for integers.
void check_reducible(std::string_view operation, ReduceOp op, DType dtype);

/// out[i] = the result of `steps` over sources[k][i], for `count` elements; a mean divides by `divisor`. Half types add in
/// f32 and are rounded once per node; integers wrap around. `out` may be one of the sources and overlaps no other.
void ordered_reduce(DType dtype, ReduceOp op, std::span<const void* const> sources,
                    std::span<const TreeStep> steps, int64_t divisor, void* out, int64_t count);

}  // namespace reprise::distributed
