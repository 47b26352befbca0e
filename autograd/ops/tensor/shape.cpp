// Views, copies and casts. A view's backward is the inverse view; a slice's backward writes into zeros.
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/kernels/elementwise/copy.h"

namespace reprise {
namespace {

Tensor copy_of(const TensorView& x, const Tensor& like, DType dtype) {
  Tensor y = Tensor::empty(x.shape, dtype, like.device());
  kernels::copy(current_stream(like.device()), x, y);
  return y;
}

using autograd::check_device;

struct Reshape : autograd::Function<Reshape> {
  static constexpr const char* name = "reshape";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Shape from_;

  Tensor forward(const Tensor& x, const Shape& shape) {
    from_ = x.shape();
    TensorView view;
    if (try_reshape(x, shape, view)) return x.alias(view);
    Tensor copy = copy_of(x, x, x.dtype());
    try_reshape(copy, shape, view);
    return copy.alias(view);
  }
  TensorList backward(const TensorList& dy) { return {reshape(dy[0], from_)}; }
};

struct Permute : autograd::Function<Permute> {
  static constexpr const char* name = "permute";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Dims inverse_;

  Tensor forward(const Tensor& x, const Dims& order) {
    inverse_ = Dims::filled(x.rank(), 0);
    TensorView view = permute(x.view(), order);
    for (int d = 0; d < x.rank(); ++d) inverse_[normalize_dim(order[d], x.rank(), name)] = d;
    return x.alias(view);
  }
  TensorList backward(const TensorList& dy) { return {permute(dy[0], inverse_)}; }
};

struct Range {
  int64_t dim;
  int64_t begin, end, step;
};
void for_each_attribute(const Range& range, const auto& visit) {
  visit(range.dim), visit(range.begin), visit(range.end), visit(range.step);
}

// The inverse of a slice: x inside zeros of `shape`.
struct Embed : autograd::Function<Embed> {
  static constexpr const char* name = "slice_backward";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Range range_{};

  Tensor forward(const Tensor& x, const Shape& shape, const Range& range) {
    range_ = range;
    Tensor y = Tensor::zeros(shape, x.dtype(), x.device());
    kernels::copy(current_stream(x.device()), x,
                  slice(y.view(), range.dim, range.begin, range.end, range.step));
    return y;
  }
  TensorList backward(const TensorList& dy) {
    return {slice(dy[0], range_.dim, range_.begin, range_.end, range_.step)};
  }
};

struct Slice : autograd::Function<Slice> {
  static constexpr const char* name = "slice";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Shape from_;
  Range range_{};

  Tensor forward(const Tensor& x, const Range& range) {
    from_ = x.shape();
    range_ = range;
    return x.alias(slice(x.view(), range.dim, range.begin, range.end, range.step));
  }
  TensorList backward(const TensorList& dy) { return {Embed::apply(dy[0], from_, range_)}; }
};

struct Expand : autograd::Function<Expand> {
  static constexpr const char* name = "expand";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Shape from_;

  Tensor forward(const Tensor& x, const Shape& shape) {
    from_ = x.shape();
    return x.alias(expand(x.view(), shape));
  }
  TensorList backward(const TensorList& dy) { return {sum_to(dy[0], from_)}; }
};

struct Clone : autograd::Function<Clone> {
  static constexpr const char* name = "clone";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  Tensor forward(const Tensor& x) { return copy_of(x, x, x.dtype()); }
  TensorList backward(const TensorList& dy) { return {dy[0]}; }
};

struct Cast : autograd::Function<Cast> {
  static constexpr const char* name = "cast";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  DType from_ = DType::f32;

  Tensor forward(const Tensor& x, DType dtype) {
    from_ = x.dtype();
    return copy_of(x, x, dtype);
  }
  TensorList backward(const TensorList& dy) {
    return {is_floating(from_) ? cast(dy[0], gradient_dtype(0, from_)) : Tensor()};
  }
};

struct Concat : autograd::Function<Concat> {
  static constexpr const char* name = "concat";
  static constexpr auto autocast = amp::Policy::widest;
  static constexpr uint32_t autocast_keeps = ~0u;  // a copy casts
  static constexpr autograd::OpCost cost = autograd::OpCost::moves();
  int dim_ = 0;
  std::vector<int64_t> sizes_;

  Tensor forward(const TensorList& parts, int dim) {
    dim_ = dim;
    Shape shape = parts[0].shape();
    shape[dim] = 0;
    DType dtype = parts[0].dtype();
    for (const Tensor& part : parts) {
      Shape other = part.shape();
      check(other.size() == shape.size(), "concat: ranks differ: ", other, " and ", parts[0].shape());
      sizes_.push_back(other[dim]);
      shape[dim] += other[dim];
      numel_of(shape, name);
      other[dim] = parts[0].shape()[dim];
      const bool mixes = under_autocast() && is_floating(dtype) && is_floating(part.dtype()) &&
                         (dtype == DType::f64) == (part.dtype() == DType::f64);
      check(other == parts[0].shape() && (mixes || part.dtype() == dtype), "concat: ", part.dtype(),
            part.shape(), " does not join ", parts[0].dtype(), parts[0].shape(), " along ", dim);
      dtype = promote(dtype, part.dtype());
      check_device(name, parts[0], part);
    }
    Tensor y = Tensor::empty(shape, dtype, parts[0].device());
    int64_t at = 0;
    for (const Tensor& part : parts) {
      kernels::copy(current_stream(y.device()), part, slice(y.view(), dim, at, at + part.shape()[dim]));
      at += part.shape()[dim];
    }
    return y;
  }
  TensorList backward(const TensorList& dy) {
    TensorList grads;
    int64_t at = 0;
    for (int64_t size : sizes_) {
      grads.push_back(slice(dy[0], dim_, at, at + size));
      at += size;
    }
    return grads;
  }
};

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) {
  autograd::check_given("reshape", x);
  return Reshape::apply(x, resolve_shape(x.shape(), shape, "reshape"));
}
Tensor permute(const Tensor& x, const Dims& order) { return Permute::apply(x, order); }

Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1) {
  autograd::check_given("transpose", x);
  Dims order = Dims::filled(x.rank(), 0);
  for (int d = 0; d < x.rank(); ++d) order[d] = d;
  std::swap(order[normalize_dim(dim0, x.rank(), "transpose")],
            order[normalize_dim(dim1, x.rank(), "transpose")]);
  return permute(x, order);
}

Tensor slice(const Tensor& x, int64_t dim, int64_t begin, int64_t end, int64_t step) {
  autograd::check_given("slice", x);
  return Slice::apply(x, Range{dim, begin, end, step});
}

Tensor select(const Tensor& x, int64_t given_dim, int64_t index) {
  autograd::check_given("select", x);
  const int dim = normalize_dim(given_dim, x.rank(), "select");
  int64_t i = index < 0 ? index + x.shape()[dim] : index;
  check(i >= 0 && i < x.shape()[dim], "select: index ", index, " is outside dimension ", dim, " of ",
        x.shape());
  return squeeze(slice(x, dim, i, i + 1), dim);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  autograd::check_given("expand", x);
  return x.shape() == shape ? x : Expand::apply(x, shape);
}

Tensor unsqueeze(const Tensor& x, int64_t given_dim) {
  autograd::check_given("unsqueeze", x);
  const int dim = normalize_dim(given_dim, x.rank() + 1, "unsqueeze");
  Shape shape;
  for (int d = 0; d <= x.rank(); ++d) {
    if (d == dim) shape.push_back(1);
    if (d < x.rank()) shape.push_back(x.shape()[d]);
  }
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, int64_t given_dim) {
  autograd::check_given("squeeze", x);
  const int dim = normalize_dim(given_dim, x.rank(), "squeeze");
  check(x.shape()[dim] == 1, "squeeze: dimension ", dim, " of ", x.shape(), " is not 1");
  Shape shape;
  for (int d = 0; d < x.rank(); ++d)
    if (d != dim) shape.push_back(x.shape()[d]);
  return reshape(x, shape);
}

Tensor clone(const Tensor& x) { return Clone::apply(x); }
Tensor cast(const Tensor& x, DType dtype) {
  autograd::check_given("cast", x);
  return x.dtype() == dtype ? x : Cast::apply(x, dtype);
}

Tensor concat(const TensorList& parts, int64_t dim) {
  check(!parts.empty(), "concat: no tensors");
  for (const Tensor& part : parts) autograd::check_given("concat", part);
  return Concat::apply(parts, normalize_dim(dim, parts[0].rank(), "concat"));
}

Tensor stack(const TensorList& given, int64_t given_dim) {
  check(!given.empty(), "stack: no tensors");
  for (const Tensor& part : given) autograd::check_given("stack", part);
  const autograd::CastArguments in(amp::Policy::widest, given);
  const TensorList& parts = in.all();
  const int dim = normalize_dim(given_dim, parts[0].rank() + 1, "stack");
  TensorList rows;
  for (const Tensor& part : parts) {
    check(part.shape() == parts[0].shape() && part.dtype() == parts[0].dtype(), "stack: ", part.dtype(),
          part.shape(), " differs from ", parts[0].dtype(), parts[0].shape());
    rows.push_back(unsqueeze(part, dim));
  }
  return concat(rows, dim);
}

TensorList split(const Tensor& x, int64_t size, int64_t given_dim) {
  autograd::check_given("split", x);
  const int dim = normalize_dim(given_dim, x.rank(), "split");
  check(size >= 1, "split: size must be at least 1, got ", size);
  const int64_t length = x.shape()[dim];
  if (length == 0) return {slice(x, dim, 0, 0)};
  TensorList parts;
  for (int64_t at = 0; at < length; at += std::min(size, length - at))
    parts.push_back(slice(x, dim, at, at + std::min(size, length - at)));
  return parts;
}

}  // namespace reprise
