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

TensorView transpose(const TensorView& x, int dim0, int dim1) {
  dim0 = normalize_dim(dim0, x.rank(), "transpose");
  dim1 = normalize_dim(dim1, x.rank(), "transpose");
  TensorView out = x;
  std::swap(out.shape[dim0], out.shape[dim1]);
  std::swap(out.strides[dim0], out.strides[dim1]);
  return out;
}

TensorView slice(const TensorView& x, int dim, int64_t begin, int64_t end, int64_t step) {
  dim = normalize_dim(dim, x.rank(), "slice");
  int64_t size = x.shape[dim];
  if (begin < 0) begin += size;
  if (end < 0) end += size;
  check(step >= 1 && begin >= 0 && begin <= end && end <= size, "slice: [", begin, ", ", end, ") step ", step,
        " is outside dimension ", dim, " of ", x.shape);
  TensorView out = x;
  out.shape[dim] = (end - begin + step - 1) / step;
  out.strides[dim] *= step;
  if (begin < size) advance(out, begin * x.strides[dim]);
  return out;
}

TensorView select(const TensorView& x, int dim, int64_t index) {
  dim = normalize_dim(dim, x.rank(), "select");
  int64_t size = x.shape[dim];
  int64_t i = index < 0 ? index + size : index;
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

TensorView expand(const TensorView& x, const Shape& shape) {
  for (int64_t size : shape) check(size >= 0, "expand: negative size in ", shape);
  check(shape.size() >= x.rank(), "expand: ", x.shape, " has more dimensions than ", shape);
  TensorView out = x;
  out.shape = shape;
  out.strides = Dims::filled(shape.size(), 0);
  int added = shape.size() - x.rank();
  for (int i = 0; i < x.rank(); ++i) {
    int64_t wanted = shape[i + added];
    check(x.shape[i] == wanted || x.shape[i] == 1, "expand: ", x.shape, " does not broadcast to ", shape);
    out.strides[i + added] = x.shape[i] == wanted ? x.strides[i] : 0;
  }
  return out;
}

TensorView permute(const TensorView& x, const Dims& order) {
  check(order.size() == x.rank(), "permute: order ", order, " for a tensor of rank ", x.rank());
  TensorView out = x;
  unsigned seen = 0;
  for (int i = 0; i < x.rank(); ++i) {
    int dim = normalize_dim(int(order[i]), x.rank(), "permute");
    check(!(seen >> dim & 1), "permute: dimension ", dim, " twice in ", order);
    seen |= 1u << dim;
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
