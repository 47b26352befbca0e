// The largest result of a uniform fill, which leaves the end of its interval out.
#pragma once

#include <algorithm>
#include <cmath>

#include "reprise/core/dtype.h"

namespace reprise::kernels {

/// The largest T below `high`, but not below `low`.
template <class T, class C>
C largest_below(C low, C high) {
  C limit = C(T(std::nextafter(high, low)));  // this may have rounded up to high again
  if (limit >= high && limit > low) {
    T step{};
    if constexpr (sizeof(T) == 2) {
      step = T(limit);
      step.bits = uint16_t(step.bits == 0 ? 0x8001 : limit > 0 ? step.bits - 1 : step.bits + 1);
    }
    limit = C(step);
  }
  return std::max(limit, low);
}

}  // namespace reprise::kernels
