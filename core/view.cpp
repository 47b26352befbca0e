// View arithmetic: every function here changes shape, strides and the first element's address, never data.
#include "reprise/core/view.h"

#include <utility>

namespace reprise {
namespace {

void advance(TensorView& x, int64_t elements) {
  if (x.data) x.data = static_cast<char*>(x.data) + elements * int64_t(size_of(x.dtype));
}

}  // namespace

bool TensorView::is_contiguous() const {
  if (numel() == 0) return true;
  int64_t expected = 1;
  for (int i = rank() - 1; i >= 0; --i) {
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

TensorView transpose(const TensorView& x, int64_t dim0, int64_t dim1) {
  const int first = normalize_dim(dim0, x.rank(), "transpose");
  const int second = normalize_dim(dim1, x.rank(), "transpose");
  TensorView out = x;
  std::swap(out.shape[first], out.shape[second]);
  std::swap(out.strides[first], out.strides[second]);
  return out;
}

TensorView slice(const TensorView& x, int64_t given_dim, int64_t given_begin, int64_t given_end,
                 int64_t step) {
  const int dim = normalize_dim(given_dim, x.rank(), "slice");
  const int64_t size = x.shape[dim];
  const int64_t begin = given_begin < 0 ? given_begin + size : given_begin;
  const int64_t end = given_end < 0 ? given_end + size : given_end;
  check(step >= 1 && begin >= 0 && begin <= end && end <= size, "slice: [", given_begin, ", ", given_end,
        ") step ", step, " is outside dimension ", dim, " of ", x.shape);
  TensorView out = x;
  const int64_t span = end - begin;
  out.shape[dim] = span / step + (span % step != 0);
  if (out.shape[dim] > 1) out.strides[dim] *= step;  // of one element it means nothing, and could overflow
  if (begin < size) advance(out, begin * x.strides[dim]);
  return out;
}

TensorView select(const TensorView& x, int64_t given_dim, int64_t index) {
  const int dim = normalize_dim(given_dim, x.rank(), "select");
  const int64_t size = x.shape[dim];
  const int64_t i = index < 0 ? index + size : index;
  check(i >= 0 && i < size, "select: index ", index, " is outside dimension ", dim, " of ", x.shape);
  TensorView out = x;
  out.shape = {};
  out.strides = {};
  for (int d = 0; d < x.rank(); ++d) {
    if (d == dim) continue;
    out.shape.push_back(x.shape[d]);
    out.strides.push_back(x.strides[d]);
  }
  advance(out, i * x.strides[dim]);
  return out;
}

TensorView expand(const TensorView& x, const Shape& shape, const char* op) {
  numel_of(shape, op);
  check(shape.size() >= x.rank(), op, ": ", x.shape, " has more dimensions than ", shape);
  TensorView out = x;
  out.shape = shape;
  out.strides = Dims::filled(shape.size(), 0);
  int added = shape.size() - x.rank();
  for (int i = 0; i < x.rank(); ++i) {
    int64_t wanted = shape[i + added];
    check(x.shape[i] == wanted || x.shape[i] == 1, op, ": ", x.shape, " does not broadcast to ", shape);
    out.strides[i + added] = x.shape[i] == wanted ? x.strides[i] : 0;
  }
  return out;
}

TensorView permute(const TensorView& x, const Dims& order) {
  check(order.size() == x.rank(), "permute: order ", order, " for a tensor of rank ", x.rank());
  dims_mask(order, x.rank(), "permute");
  TensorView out = x;
  for (int i = 0; i < x.rank(); ++i) {
    const int dim = normalize_dim(order[i], x.rank(), "permute");
    out.shape[i] = x.shape[dim];
    out.strides[i] = x.strides[dim];
  }
  return out;
}

bool try_reshape(const TensorView& x, const Shape& shape, TensorView& out) {
  out = x;
  out.shape = shape;
  if (x.is_contiguous()) {
    out.strides = contiguous_strides(shape);
    return true;
  }
  // Walk both shapes from the right; each run of new dimensions must fall inside one run of old dimensions
  // that are contiguous with each other.
  Dims old_shape, old_strides;
  for (int i = 0; i < x.rank(); ++i) {
    if (x.shape[i] == 1) continue;
    old_shape.push_back(x.shape[i]);
    old_strides.push_back(x.strides[i]);
  }
  out.strides = Dims::filled(shape.size(), 1);
  int target = shape.size() - 1;
  for (int i = old_shape.size() - 1; i >= 0;) {
    int64_t run = old_shape[i], stride = old_strides[i];
    for (--i; i >= 0 && old_strides[i] == old_strides[i + 1] * old_shape[i + 1]; --i) run *= old_shape[i];
    while (target >= 0 && run > 1) {
      if (run % shape[target] != 0) return false;
      out.strides[target] = stride;
      stride *= shape[target];
      run /= shape[target--];
    }
    if (run != 1) return false;
  }
  return true;
}

}  // namespace reprise
