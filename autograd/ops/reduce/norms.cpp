// Norms and log-sum-exp over dimensions, from sums.
#include <cmath>

#include "reprise/autograd/function.h"
#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/elementwise/conditions.h"
#include "reprise/autograd/ops/elementwise/run_binary.h"
#include "reprise/autograd/ops/given.h"
#include "reprise/autograd/ops/raw.h"
#include "reprise/autograd/ops/read_wide.h"
#include "reprise/autograd/ops/reduce/wide_variance.h"

namespace reprise {
namespace {

Tensor like(const Tensor& x, double value) { return scalar(value, x.dtype(), x.device()); }

// sqrt(x), with the gradient 0 at 0, as PyTorch has it for norms.
Tensor root(const Tensor& x) {
  const Tensor is_zero = equal(x, like(x, 0));
  return where(is_zero, like(x, 0), sqrt(where(is_zero, like(x, 1), x)));
}

// y, which was made of x over `dims`, without these.
Tensor without_dims(const char* op, const Tensor& x, const Dims& dims, const Tensor& y) {
  const unsigned reduced = dims.empty() ? ~0u : dims_mask(dims, x.rank(), op);
  return reshape(y, autograd::without_reduced(x, reduced));
}

// sqrt sum x^2 over `dims`, which stay with size 1. The gradient is dy x / y, and 0 where y is.
struct Norm : autograd::Function<Norm> {
  static constexpr const char* name = "norm";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: 16 bits are read as they are
  static constexpr autograd::OpCost cost = autograd::OpCost::reduction();
  Dims dims_;

  Tensor forward(const Tensor& x, const Dims& dims) {
    dims_ = dims;
    const Tensor squares = Tensor::empty(x.shape(), autograd::statistics_dtype(x), x.device());
    kernels::unary(current_stream(x.device()), kernels::UnaryOp::square, x, squares);
    const Tensor y = sqrt(sum(squares, dims, true));
    save(x, y);
    return autograd::converted(y, under_autocast() ? y.dtype() : x.dtype());
  }

  TensorList backward(const TensorList& dy) {
    const Tensor x = saved(0);
    const DType dtype = gradient_dtype(0, x.dtype());
    if (autograd::grad_mode_enabled()) {
      auto wide = [&](const Tensor& d, const Tensor& at) {
        return at * by_norm(d, root(sum(square(at), dims_, true)));
      };
      return {autograd::converted(autograd::in_f32(wide, dy[0], x), dtype)};
    }
    const Tensor factor = by_norm(autograd::converted(dy[0], autograd::statistics_dtype(x)), saved(1));
    return {autograd::run_binary(kernels::BinaryOp::mul, x, factor, dtype, name)};
  }

 private:
  static Tensor by_norm(const Tensor& d, const Tensor& y) {
    const Tensor is_zero = equal(y, like(y, 0));
    return where(is_zero, like(d, 0), d / where(is_zero, like(y, 1), y));
  }
};

// An infinity is not subtracted from itself.
Tensor finite_or_0(const Tensor& x) { return where(isfinite(x), x, like(x, 0)); }

// The logarithm of a sum, which is not subtracted from numbers that are all -inf.
Tensor or_0_of_none(const Tensor& y) { return where(equal(y, like(y, -INFINITY)), like(y, 0), y); }

// log sum exp(x) over `dims`, which stay with size 1.
struct LogSumExp : autograd::Function<LogSumExp> {
  static constexpr const char* name = "logsumexp";
  static constexpr auto autocast = amp::Policy::f32;
  static constexpr uint32_t autocast_keeps = 0b1;  // x: 16 bits are read as they are
  static constexpr autograd::OpCost cost = autograd::OpCost::reduction();
  Dims dims_;

  Tensor forward(const Tensor& x, const Dims& dims) {
    dims_ = dims;
    Tensor y;
    if (x.numel() == 0) {
      y = log(sum(autograd::converted(x, autograd::statistics_dtype(x)), dims, true));  // of no numbers -inf
    } else {
      const Tensor largest = finite_or_0(max(x, dims, true));
      y = log(sum(exponentials(x, largest), dims, true)) + largest;
    }
    save(x, y);
    return autograd::converted(y, under_autocast() ? y.dtype() : x.dtype());
  }

  TensorList backward(const TensorList& dy) {
    const Tensor x = saved(0);
    if (autograd::grad_mode_enabled()) {
      auto wide = [&](const Tensor& d, const Tensor& at) {
        return d * exp(at - or_0_of_none(logsumexp(at, dims_, true)));
      };
      return {autograd::converted(autograd::in_f32(wide, dy[0], x), gradient_dtype(0, x.dtype()))};
    }
    const Tensor shares = exponentials(x, or_0_of_none(saved(1)));
    return {autograd::run_binary(kernels::BinaryOp::mul, dy[0], shares, gradient_dtype(0, x.dtype()), name)};
  }

 private:
  // exp(x - shift), in f32 of 16 bits.
  static Tensor exponentials(const Tensor& x, const Tensor& shift) {
    const Tensor y =
        autograd::run_binary(kernels::BinaryOp::sub, x, shift, autograd::statistics_dtype(x), name);
    kernels::unary(current_stream(x.device()), kernels::UnaryOp::exp, y, y);
    return y;
  }
};

}  // namespace

Tensor norm(const Tensor& x, const Dims& dims, bool keep_dims) {
  autograd::check_given("norm", x);
  autograd::check_floating("norm", x);
  const Tensor y = Norm::apply(x, dims);
  return keep_dims ? y : without_dims(Norm::name, x, dims, y);
}

Tensor stddev(const Tensor& x, const Dims& dims, int64_t correction, bool keep_dims) {
  constexpr auto op = "stddev";
  autograd::check_given(op, x);
  autograd::check_floating(op, x);
  auto wide = [&](const Tensor& w) { return root(autograd::wide_var(op, w, dims, correction, keep_dims)); };
  return cast(autograd::reading_wide(wide, x), x.dtype());
}

Tensor logsumexp(const Tensor& given, const Dims& dims, bool keep_dims) {
  autograd::check_given("logsumexp", given);
  const Tensor x = autograd::with_fractions(given), y = LogSumExp::apply(x, dims);
  return keep_dims ? y : without_dims(LogSumExp::name, x, dims, y);
}

}  // namespace reprise
