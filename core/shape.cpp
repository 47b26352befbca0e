// Shape arithmetic.
#include "reprise/core/shape.h"

#include <algorithm>
#include <ostream>

namespace reprise {

std::ostream& operator<<(std::ostream& out, const Dims& dims) {
  out << '(';
  for (int i = 0; i < dims.size(); ++i) out << (i ? ", " : "") << dims[i];
  return out << (dims.size() == 1 ? ",)" : ")");
}

int64_t numel_of(const Shape& shape) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    check(size >= 0, "shape: negative size in ", shape);
    empty |= size == 0;
  }
  if (empty) return 0;
  for (int64_t size : shape)
    check(!__builtin_mul_overflow(count, size, &count), "shape: too many elements in ", shape);
  return count;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = Dims::filled(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i)
    strides[i] = strides[i + 1] * std::max<int64_t>(shape[i + 1], 1);
  return strides;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  int rank = std::max(a.size(), b.size());
  Shape out = Dims::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    int ia = i - (rank - a.size()), ib = i - (rank - b.size());
    int64_t size_a = ia < 0 ? 1 : a[ia], size_b = ib < 0 ? 1 : b[ib];
    check(size_a == size_b || size_a == 1 || size_b == 1, op, ": shapes ", a, " and ", b,
          " do not broadcast");
    out[i] = size_a == 1 ? size_b : size_a;
  }
  return out;
}

int normalize_dim(int dim, int rank, const char* op) {
  check(dim >= -rank && dim < rank, op, ": dimension ", dim, " is outside a tensor of rank ", rank);
  return dim < 0 ? dim + rank : dim;
}

}  // namespace reprise
