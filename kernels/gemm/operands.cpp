// Checks of a matrix multiply's operands, and the joining of batch dimensions.
#include "reprise/kernels/gemm/operands.h"

#include <utility>

#include "reprise/kernels/reduce/reduce.h"

namespace reprise::kernels::gemm_detail {
namespace {

bool is_absent(const TensorView& x) { return x.rank() == 0 && !x; }

/// Error unless all that is not a factor has the factors' dtype, or f32 where that has 16 bits.
void check_dtypes(const GemmArguments& arguments) {
  const auto& [a, b, c, e] = arguments;
  for (const TensorView* x : {&c, &a})
    check(is_floating(x->dtype), "gemm: needs a floating dtype, got ", x->dtype);
  check(b.dtype == a.dtype, "gemm: B is ", b.dtype, " but A is ", a.dtype);
  const DType wide = size_of(a.dtype) == 2 ? DType::f32 : a.dtype;
  const std::pair<const TensorView*, const char*> others[] = {{&c, "C"},
                                                              {&e.bias, "bias"},
                                                              {&e.pre_activation, "pre_activation"},
                                                              {&e.residual, "residual"},
                                                              {&e.scale, "scale"},
                                                              {&e.row_scale, "row_scale"},
                                                              {&e.dactivation, "dactivation"},
                                                              {&e.bias_gradient, "bias_gradient"}};
  for (const auto& [x, what] : others)
    check(is_absent(*x) || x->dtype == a.dtype || x->dtype == wide, "gemm: ", what, " is ", x->dtype,
          " but A and B are ", a.dtype);
}

/// `x` (batch..., rows, columns) with its batch dimensions broadcast to C's. Error if it does not fit.
TensorView fit_to(const TensorView& c, const TensorView& x, const char* what, int64_t rows, int64_t columns) {
  if (is_absent(x)) return x;
  check(x.rank() >= 2 && x.size(-2) == rows && x.size(-1) == columns, "gemm: ", what, " is ", x.shape,
        ", needs (..., ", rows, ", ", columns, ") for C ", c.shape);
  Shape shape = c.shape;
  shape[c.rank() - 2] = rows;
  shape[c.rank() - 1] = columns;
  check(x.rank() <= c.rank(), "gemm: ", what, " ", x.shape, " has more dimensions than C ", c.shape);
  return expand(x, shape);
}

void check_rows(const TensorView& x, const char* what) {
  check(x.rank() == 0 || x.size(-1) <= 1 || x.stride(-1) == 1, "gemm: the rows of ", what,
        " need stride 1; strides are ", x.strides);
}

/// Whether the batch dimension `dim` of x can become further rows.
bool rows_join(const TensorView& x, int dim) {
  return x.rank() == 0 || x.stride(dim) == x.size(-2) * x.stride(-2);
}
/// Makes it so.
void join_rows(TensorView& x, int dim) {
  if (x.rank() == 0) return;
  const int rank = x.rank();
  Shape shape;
  Strides strides;
  for (int d = 0; d < rank; ++d) {
    if (d == dim) continue;
    shape.push_back(d == rank - 2 ? x.shape[d] * x.shape[dim] : x.shape[d]);
    strides.push_back(x.strides[d]);
  }
  x.shape = shape;
  x.strides = strides;
}

/// Of bias or scale: a number for each column of C.
void check_column_numbers(const TensorView& c, const TensorView& x, const char* what) {
  if (is_absent(x)) return;
  const int64_t n = c.size(-1);
  check(x.rank() == 1 && x.size(0) == n, "gemm: ", what, " is ", x.shape, ", needs (", n, ",)");
  check(n <= 1 || x.stride(0) == 1, "gemm: ", what, " needs stride 1; stride is ", x.strides);
}

void check_row_scale(const TensorView& c, const TensorView& x) {
  if (is_absent(x)) return;
  check(c.rank() == 2, "gemm: row_scale needs matrices, C is ", c.shape);
  check(x.rank() == 1 && (x.size(0) > 0 ? c.size(0) % x.size(0) == 0 : c.size(0) == 0), "gemm: row_scale is ",
        x.shape, ", which does not divide the ", c.size(0), " rows of C");
  check(x.is_contiguous(), "gemm: row_scale needs stride 1; stride is ", x.strides);
}

void check_bias_gradient(const TensorView& c, const Epilogue& e) {
  const TensorView& sums = e.bias_gradient;
  if (is_absent(sums)) return;
  check(c.rank() == 2, "gemm: bias_gradient needs matrices, C is ", c.shape);
  check(sums.shape == Shape{c.size(0)}, "gemm: bias_gradient is ", sums.shape, ", needs ", Shape{c.size(0)});
  check(sums.is_contiguous(), "gemm: bias_gradient needs stride 1; stride is ", sums.strides);
  check(!e.bias && !e.scale && !e.row_scale && !e.pre_activation && !e.residual && !e.dactivation &&
            e.activation == Activation::none,
        "gemm: bias_gradient excludes every other epilogue but accumulate");
}

}  // namespace

void sum_rows(const Stream& stream, const TensorView& a, const TensorView& bias_gradient) {
  TensorView row = bias_gradient;
  row.shape = {1, a.size(0)};
  row.strides = {a.size(0), 1};
  reduce(stream, ReduceOp::sum, transpose(a, 0, 1), row);
}

int64_t sample_rows(const TensorView& c, const Epilogue& epilogue) {
  return epilogue.row_scale ? c.size(0) / epilogue.row_scale.size(0) : 1;
}

Operands fit_operands(const GemmArguments& arguments) {
  const auto& [a, b, c, epilogue] = arguments;
  check_dtypes(arguments);
  check(a.rank() >= 2 && b.rank() >= 2 && c.rank() >= 2, "gemm: needs rank 2 or more: A ", a.shape, ", B ",
        b.shape, ", C ", c.shape);
  check(a.size(-1) == b.size(-2), "gemm: inner sizes differ: A ", a.shape, ", B ", b.shape);
  const int64_t m = c.size(-2), n = c.size(-1), k = a.size(-1);
  Operands out{fit_to(c, a, "A", m, k),
               fit_to(c, b, "B", k, n),
               c,
               fit_to(c, epilogue.pre_activation, "pre_activation", m, n),
               fit_to(c, epilogue.residual, "residual", m, n),
               fit_to(c, epilogue.dactivation, "dactivation", m, n)};
  check_rows(c, "C");
  check_rows(out.pre_activation, "pre_activation");
  check_rows(out.residual, "residual");
  check_rows(out.dactivation, "dactivation");
  check_column_numbers(c, epilogue.bias, "bias");
  check_column_numbers(c, epilogue.scale, "scale");
  check_row_scale(c, epilogue.row_scale);
  check_bias_gradient(c, epilogue);
  check(!epilogue.dactivation || (!epilogue.bias && !epilogue.pre_activation && !epilogue.scale &&
                                  !epilogue.row_scale && !epilogue.residual),
        "gemm: dactivation excludes bias, pre_activation, scales and residual");
  check(!epilogue.stops_before_activation ||
            (!epilogue.dactivation && !epilogue.pre_activation && !epilogue.scale && !epilogue.row_scale &&
             !epilogue.residual && !epilogue.accumulate),
        "gemm: stops_before_activation excludes what follows, pre_activation and dactivation");
  return out;
}

void join_batches(Operands& x) {
  while (x.c.rank() > 2) {
    const int dim = x.c.rank() - 3;
    const bool size_one = x.c.size(dim) == 1;
    bool joins = size_one || x.b.stride(dim) == 0;
    for (TensorView* view : {&x.a, &x.c, &x.pre_activation, &x.residual, &x.dactivation})
      joins = joins && (size_one || rows_join(*view, dim));
    if (!joins) return;
    for (TensorView* view : {&x.a, &x.c, &x.pre_activation, &x.residual, &x.dactivation})
      join_rows(*view, dim);
    x.b = select(x.b, dim, 0);
  }
}

}  // namespace reprise::kernels::gemm_detail
