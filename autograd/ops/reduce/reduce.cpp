// Sums, means, maxima over dimensions.
#include "reprise/kernels/reduce/reduce.h"
#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/read_wide.h"
#include "reprise/autograd/ops/reduce/extremes.h"
#include "reprise/autograd/ops/reduce/wide_variance.h"

namespace reprise {
namespace {

// x.shape() with size 1 in the dimensions of the mask.
Shape reduced_shape(const Tensor& x, unsigned reduced) {
  Shape shape = x.shape();
  for (int d = 0; d < x.rank(); ++d)
    if (reduced >> d & 1) shape[d] = 1;
  return shape;
}

Tensor run_reduce(kernels::ReduceOp op, const Tensor& x, const Shape& kept, DType dtype) {
  Tensor y = Tensor::empty(kept, dtype, x.device());
  kernels::reduce(current_stream(x.device()), op, x, y);
  return y;
}

// Sum with every dimension kept.
struct Sum : autograd::Function<Sum> {
  static constexpr const char* name = "sum";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: 16 bits are read as they are
  static constexpr autograd::OpCost cost = autograd::OpCost::reduction();
  Shape shape_;

  Tensor forward(const Tensor& x, const Shape& kept) {
    shape_ = x.shape();
    const bool widens = under_autocast() && autograd::is_half(x.dtype());
    const DType floating = widens ? DType::f32 : x.dtype();
    return run_reduce(kernels::ReduceOp::sum, x, kept, is_floating(x.dtype()) ? floating : DType::i64);
  }
  TensorList backward(const TensorList& dy) {
    return {expand(autograd::converted(dy[0], gradient_dtype(0, dy[0].dtype())), shape_)};
  }
};

template <kernels::ReduceOp op>
struct Extremum : autograd::Function<Extremum<op>> {
  static constexpr const char* name = op == kernels::ReduceOp::max ? "max" : "min";
  static constexpr auto autocast = amp::Policy::inputs;
  static constexpr autograd::OpCost cost = autograd::OpCost::reduction();

  Tensor forward(const Tensor& x, const Shape& kept, DType dtype) {
    check(x.numel() > 0 || numel_of(kept) == 0, name, ": of no elements, in shape ", x.shape());
    Tensor y = run_reduce(op, x, kept, x.dtype());
    this->save(x, y);
    return autograd::converted(y, dtype);
  }
  TensorList backward(const TensorList& dy) {
    Tensor x = this->saved(0), y = this->saved(1).detach();
    // f16 cannot count beyond 2048.
    Tensor hits = autograd::converted(equal(x, y), autograd::statistics_dtype(x));
    return {autograd::converted(hits * (dy[0] / sum_to(hits, y.shape())), x.dtype())};
  }
};

template <class Op, class... More>
Tensor apply_reduce(const char* op, const Tensor& x, const Dims& dims, bool keep_dims, const More&... more) {
  autograd::check_given(op, x);
  const unsigned reduced = dims.empty() ? ~0u : dims_mask(dims, x.rank(), op);
  Tensor y = Op::apply(x, reduced_shape(x, reduced), more...);
  return keep_dims ? y : reshape(y, autograd::without_reduced(x, reduced));
}

// For what is made of a mean, of numbers that `reading_wide` gives: sums of half types overflow (f16) or coarsen (bf16) before they are
// scaled. Errors name `op`.
Tensor wide_mean(const char* op, const Tensor& x, const Dims& dims, bool keep_dims) {
  const Tensor total = apply_reduce<Sum>(op, x, dims, keep_dims);
  return total * (double(total.numel()) / double(x.numel()));
}

// f(x), rounded once to the dtype of x; errors name `op`.
template <class F>
Tensor of_floating(const char* op, const Tensor& x, const F& f) {
  autograd::check_given(op, x);
  autograd::check_floating(op, x);
  return cast(autograd::reading_wide(f, x), x.dtype());
}

}  // namespace

Tensor sum(const Tensor& x, const Dims& dims, bool keep_dims) {
  return apply_reduce<Sum>("sum", x, dims, keep_dims);
}
Tensor max(const Tensor& x, const Dims& dims, bool keep_dims) {
  autograd::check_given("max", x);
  return autograd::max_in(x.dtype(), x, dims, keep_dims);
}
Tensor min(const Tensor& x, const Dims& dims, bool keep_dims) {
  autograd::check_given("min", x);
  return autograd::min_in(x.dtype(), x, dims, keep_dims);
}
Tensor autograd::max_in(DType dtype, const Tensor& x, const Dims& dims, bool keep_dims) {
  return apply_reduce<Extremum<kernels::ReduceOp::max>>("max", x, dims, keep_dims, dtype);
}
Tensor autograd::min_in(DType dtype, const Tensor& x, const Dims& dims, bool keep_dims) {
  return apply_reduce<Extremum<kernels::ReduceOp::min>>("min", x, dims, keep_dims, dtype);
}
Tensor mean(const Tensor& x, const Dims& dims, bool keep_dims) {
  return of_floating("mean", x, [&](const Tensor& w) { return wide_mean("mean", w, dims, keep_dims); });
}

Tensor variance(const Tensor& x, const Dims& dims, bool keep_dims) {
  constexpr auto op = "variance";
  return of_floating(op, x, [&](const Tensor& w) { return autograd::wide_variance(op, w, dims, keep_dims); });
}
Tensor autograd::wide_variance(const char* op, const Tensor& x, const Dims& dims, bool keep_dims) {
  return wide_mean(op, square(x - wide_mean(op, x, dims, true)), dims, keep_dims);
}

Tensor sum_to(const Tensor& x, const Shape& shape) {
  autograd::check_given("sum_to", x);
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
