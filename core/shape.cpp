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

int64_t numel_of(const Shape& shape, const char* op) {
  int64_t count = 1;
  bool empty = false;
  for (int64_t size : shape) {
    check(size >= 0, op, ": negative size in ", shape);
    empty |= size == 0;
    const bool fits = !__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count);
    check(fits && count <= max_elements, op, ": too many elements in ", shape);
  }
  return empty ? 0 : count;
}

Shape resolve_shape(const Shape& from, const Shape& shape, const char* op) {
  Shape out = shape;
  int unknown = -1;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] != -1) continue;
    check(unknown < 0, op, ": more than one -1 in ", shape);
    unknown = d;
    out[d] = 1;
  }
  const int64_t wanted = numel_of(out, op), there = numel_of(from, op);
  if (unknown >= 0) {
    check(wanted > 0 && there % wanted == 0, op, ": ", from, " does not fit ", shape);
    out[unknown] = there / wanted;
  } else {
    check(wanted == there, op, ": ", from, " has ", there, " elements, ", shape, " has ", wanted);
  }
  return out;
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
  numel_of(out, op);
  return out;
}

int normalize_dim(int64_t dim, int rank, const char* op) {
  check(dim >= -rank && dim < rank, op, ": dimension ", dim, " is outside a tensor of rank ", rank);
  return int(dim < 0 ? dim + rank : dim);
}

unsigned dims_mask(const Dims& dims, int rank, const char* op) {
  unsigned mask = 0;
  for (int64_t given : dims) {
    const int dim = normalize_dim(given, rank, op);
    check(!(mask >> dim & 1), op, ": dimension ", dim, " twice in ", dims);
    mask |= 1u << dim;
  }
  return mask;
}

}  // namespace reprise
