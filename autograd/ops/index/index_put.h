// Writing into places, for operations in place.
#pragma once

#include "reprise/autograd/ops/index/places.h"
#include "reprise/autograd/ops/overwrite.h"

namespace reprise::autograd {

/// Writes `values` into these places of `x`, or adds them there: nothing is recorded.
void write_places(const Tensor& x, const Places& places, const Tensor& values, bool accumulate);

/// `index_put`, which may write into x's memory.
Tensor put_places(const char* op, const Tensor& x, const Places& places, const Tensor& values,
                  bool accumulate, Overwrite overwrite);

/// Whether what has shape `from` broadcasts to `to`.
inline bool broadcasts_to(const Shape& from, const Shape& to) {
  const int added = to.size() - from.size();
  bool fits = added >= 0;
  for (int d = 0; fits && d < from.size(); ++d) fits = from[d] == 1 || from[d] == to[d + added];
  return fits;
}

/// Error naming `op` unless the values broadcast to what x[places] is.
void check_values(const char* op, const Tensor& x, const Places& places, const Tensor& values);

}  // namespace reprise::autograd
