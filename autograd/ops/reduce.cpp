// Sums, means, maxima over dimensions.
#include "reprise/kernels/reduce.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"

namespace reprise {
namespace {

// x.shape() with size 1 in the reduced dimensions.
Shape reduced_shape(const Tensor& x, const Dims& dims, const char* op) {
  if (dims.empty()) return Dims::filled(x.rank(), 1);
  Shape shape = x.shape();
  for (int64_t dim : dims) shape[normalize_dim(int(dim), x.rank(), op)] = 1;
  return shape;
}

Shape without_reduced(const Tensor& x, const Dims& dims) {
  Shape shape;
  for (int d = 0; d < x.rank(); ++d) {
    bool reduced = dims.empty();
    for (int64_t dim : dims) reduced |= (dim < 0 ? dim + x.rank() : dim) == d;
    if (!reduced) shape.push_back(x.shape()[d]);
  }
  return shape;
}

Tensor run_reduce(kernels::ReduceOp op, const Tensor& x, const Shape& kept) {
  bool counts = op == kernels::ReduceOp::sum && !is_floating(x.dtype());
  Tensor y = Tensor::empty(kept, counts ? DType::i64 : x.dtype(), x.device());
  kernels::reduce(current_stream(x.device()), op, x, y);
  return y;
}

// Sums of half types overflow (f16) or coarsen (bf16) before they are scaled; their mean is taken in f32.
bool is_half(const Tensor& x) { return x.dtype() == DType::bf16 || x.dtype() == DType::f16; }

// Sum with every dimension kept.
struct Sum : autograd::Function<Sum> {
  static constexpr const char* name = "sum";
  Shape shape_;

  Tensor forward(const Tensor& x, const Shape& kept) {
    shape_ = x.shape();
    return run_reduce(kernels::ReduceOp::sum, x, kept);
  }
  TensorList backward(const TensorList& dy) { return {expand(dy[0], shape_)}; }
};

template <kernels::ReduceOp op>
struct Extremum : autograd::Function<Extremum<op>> {
  static constexpr const char* name = op == kernels::ReduceOp::max ? "max" : "min";

  Tensor forward(const Tensor& x, const Shape& kept) {
    Tensor y = run_reduce(op, x, kept);
    this->save(x, y);
    return y;
  }
  TensorList backward(const TensorList& dy) {
    Tensor x = this->saved(0), y = this->saved(1).detach();
    Tensor hits = cast(equal(x, y), x.dtype());
    return {hits * (dy[0] / sum_to(hits, y.shape()))};
  }
};

template <class Op>
Tensor apply_reduce(const Tensor& x, const Dims& dims, bool keep_dims) {
  Tensor y = Op::apply(x, reduced_shape(x, dims, Op::name));
  return keep_dims ? y : reshape(y, without_reduced(x, dims));
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keep_dims) {
  return apply_reduce<Sum>(x, dims, keep_dims);
}
Tensor max(const Tensor& x, const Dims& dims, bool keep_dims) {
  return apply_reduce<Extremum<kernels::ReduceOp::max>>(x, dims, keep_dims);
}
Tensor min(const Tensor& x, const Dims& dims, bool keep_dims) {
  return apply_reduce<Extremum<kernels::ReduceOp::min>>(x, dims, keep_dims);
}

Tensor mean(const Tensor& x, const Dims& dims, bool keep_dims) {
  check(is_floating(x.dtype()), "mean: needs a floating dtype, got ", x.dtype());
  if (is_half(x)) return cast(mean(cast(x, DType::f32), dims, keep_dims), x.dtype());
  Tensor total = sum(x, dims, keep_dims);
  return total * (double(total.numel()) / double(x.numel()));
}

Tensor variance(const Tensor& x, const Dims& dims, bool keep_dims) {
  if (is_half(x)) return cast(variance(cast(x, DType::f32), dims, keep_dims), x.dtype());
  return mean(square(x - mean(x, dims, true)), dims, keep_dims);
}

Tensor argmax(const Tensor& x) {
  check(x.rank() >= 1, "argmax: needs at least one dimension");
  Shape shape = x.shape();
  shape[x.rank() - 1] = 1;
  Tensor y = Tensor::empty(shape, DType::i64, x.device());
  kernels::argmax(current_stream(x.device()), x, y);
  return squeeze(y, -1);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  int added = x.rank() - shape.size();
  bool fits = added >= 0;
  for (int d = 0; fits && d < shape.size(); ++d) fits = shape[d] == 1 || shape[d] == x.shape()[d + added];
  check(fits, "sum_to: ", shape, " does not broadcast to ", x.shape());
  Dims dims;
  for (int d = 0; d < x.rank(); ++d)
    if (d < added || (shape[d - added] == 1 && x.shape()[d] != 1)) dims.push_back(d);
  Tensor y = dims.empty() ? x : sum(x, dims, true);
  return reshape(y, shape);
}

}  // namespace reprise
