// Overlap by the arithmetic of strides.
#include "reprise/core/overlap.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace reprise {
namespace {

// The elements between the first and the last of x.
int64_t extent_of(const TensorView& x) {
  int64_t extent = 0;
  for (int d = 0; d < x.rank(); ++d) extent += (x.shape[d] - 1) * x.strides[d];
  return extent;
}

// By marking each element's place: for strides that interleave, which slices and transposes never make.
bool marks_a_place_twice(const TensorView& x) {
  std::vector<bool> marked(size_t(extent_of(x)) + 1);
  Dims index = Dims::filled(x.rank(), 0);
  size_t place = 0;
  for (int64_t n = x.numel(); n > 0; --n) {
    if (marked[place]) return true;
    marked[place] = true;
    for (int d = x.rank() - 1; d >= 0; --d) {
      place += size_t(x.strides[d]);
      if (++index[d] < x.shape[d]) break;
      place -= size_t(x.strides[d] * x.shape[d]);
      index[d] = 0;
    }
  }
  return false;
}

}  // namespace

size_t bytes_spanned(const TensorView& x) {
  return x.numel() == 0 ? 0 : size_t(extent_of(x) + 1) * size_of(x.dtype);
}

bool overlaps_itself(const TensorView& x) {
  if (x.is_contiguous()) return false;
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride and size
  for (int d = 0; d < x.rank(); ++d)
    if (x.shape[d] > 1) dims.emplace_back(x.strides[d], x.shape[d]);
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;  // of the dimensions so far, from their first element to their last
  for (const auto& [stride, size] : dims) {
    if (stride == 0) return true;
    if (stride <= reach) return marks_a_place_twice(x);
    reach += stride * (size - 1);
  }
  return false;
}

bool ranges_meet(const TensorView& a, const TensorView& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  auto end_of = [](const TensorView& x) {
    return static_cast<const char*>(x.data) + (extent_of(x) + 1) * int64_t(size_of(x.dtype));
  };
  return a.data && b.data && static_cast<const char*>(a.data) < end_of(b) &&
         static_cast<const char*>(b.data) < end_of(a);
}

}  // namespace reprise
