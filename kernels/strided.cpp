// The arithmetic of strided walks: merging dimensions, ordering them, and moving through them.
#include "reprise/kernels/strided.h"

#include <cstdlib>
#include <utility>

namespace reprise::kernels {

void check_same_shape(const char* op, const TensorView& a, const TensorView& b) {
  check(a.shape == b.shape, op, ": shapes differ: ", a.shape, " and ", b.shape);
}

void check_same_dtype(const char* op, const TensorView& a, const TensorView& b) {
  check(a.dtype == b.dtype, op, ": dtypes differ: ", a.dtype, " and ", b.dtype);
}

void collapse(std::span<TensorView> views) {
  const Shape shape = views[0].shape;
  Shape sizes;  // built from the innermost dimension outwards
  std::array<Dims, 8> strides;
  invariant(views.size() <= strides.size(), "collapse: too many views: ", views.size());
  for (int dim = shape.size() - 1; dim >= 0; --dim) {
    if (shape[dim] == 1) continue;
    bool merges = !sizes.empty();
    for (size_t v = 0; v < views.size() && merges; ++v)
      merges = views[v].strides[dim] == strides[v].back() * sizes.back();
    if (merges) {
      sizes[sizes.size() - 1] *= shape[dim];
      continue;
    }
    sizes.push_back(shape[dim]);
    for (size_t v = 0; v < views.size(); ++v) strides[v].push_back(views[v].strides[dim]);
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (size_t v = 0; v < views.size(); ++v) strides[v].push_back(1);
  }
  auto reversed = [](const Dims& dims) {
    Dims out;
    for (int i = dims.size() - 1; i >= 0; --i) out.push_back(dims[i]);
    return out;
  };
  for (size_t v = 0; v < views.size(); ++v) {
    views[v].shape = reversed(sizes);
    views[v].strides = reversed(strides[v]);
  }
}

void order_like_last(std::span<TensorView> views) {
  const TensorView& last = views.back();
  Dims order;
  for (int dim = 0; dim < last.rank(); ++dim) order.push_back(dim);
  for (int i = 1; i < order.size(); ++i)  // insertion sort: stable, and the rank is 8 at most
    for (int j = i; j > 0; --j) {
      auto stride = [&](int at) { return std::abs(last.strides[int(order[at])]); };
      if (stride(j - 1) >= stride(j)) break;
      std::swap(order[j - 1], order[j]);
    }
  for (TensorView& view : views) view = permute(view, order);
}

Walk::Walk(const TensorView& view, int64_t position)
    : sizes_(view.shape),
      strides_(view.strides),
      index_(Dims::filled(view.rank(), 0)),
      last_(view.rank() - 1) {
  for (int dim = last_; dim >= 0; --dim) {
    if (sizes_[dim] == 0) return;
    index_[dim] = position % sizes_[dim];
    position /= sizes_[dim];
    offset_ += index_[dim] * strides_[dim];
  }
}

void Walk::advance(int64_t count) {
  index_[last_] += count;
  offset_ += count * strides_[last_];
  for (int dim = last_; dim > 0 && index_[dim] == sizes_[dim]; --dim) {
    offset_ += strides_[dim - 1] - index_[dim] * strides_[dim];
    index_[dim] = 0;
    ++index_[dim - 1];
  }
}

}  // namespace reprise::kernels
