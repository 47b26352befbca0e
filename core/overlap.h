// Overlap: whether writing one element of a view changes another one, or one of another view.
#pragma once

#include "reprise/core/view.h"

namespace reprise {

/// The bytes from the first element of x to the end of its last; 0 if it has none.
size_t bytes_spanned(const TensorView& x);
/// Whether two elements of x share memory, as those of an expanded view do: x may be read, not written.
bool overlaps_itself(const TensorView& x);
/// Whether memory between the first and the last element of `a` lies between those of `b`.
bool ranges_meet(const TensorView& a, const TensorView& b);

}  // namespace reprise
