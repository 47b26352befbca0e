// The elements of a view of any strides, in row-major order, as files have them.
#pragma once

#include <algorithm>
#include <vector>

#include "reprise/core/view.h"

namespace reprise::io {

/// Calls `take(const void* data, size_t bytes)` with the elements of `view`, on the CPU, piece by piece.
template <class Take>
void for_each_piece(const TensorView& view, Take take) {
  const size_t width = size_of(view.dtype);
  if (view.is_contiguous()) return take(view.data, size_t(view.numel()) * width);
  constexpr size_t piece = size_t(1) << 20;
  std::vector<char> buffer;
  buffer.reserve(std::min(piece, size_t(view.numel()) * width) + width);
  Dims index = Dims::filled(view.rank(), 0);
  const auto* data = static_cast<const char*>(view.data);
  for (int64_t left = view.numel(); left > 0; --left) {
    int64_t offset = 0;
    for (int d = 0; d < view.rank(); ++d) offset += index[d] * view.stride(d);
    const char* element = data + offset * int64_t(width);
    buffer.insert(buffer.end(), element, element + width);
    if (buffer.size() >= piece || left == 1) {
      take(static_cast<const void*>(buffer.data()), buffer.size());
      buffer.clear();
    }
    for (int d = view.rank() - 1; d >= 0 && ++index[d] == view.size(d); --d) index[d] = 0;
  }
}

}  // namespace reprise::io
