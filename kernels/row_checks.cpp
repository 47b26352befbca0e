// Checks of the views that row kernels take.
#include "reprise/kernels/row_checks.h"

namespace reprise::kernels {

namespace {

/// Empty tensors have no memory.
bool is_there(const TensorView& x) { return x || x.rank() > 0; }

}  // namespace

bool have_several_dtypes(std::span<const TensorView* const> views) {
  for (const TensorView* view : views)
    if (is_there(*view) && view->dtype != views.front()->dtype) return true;
  return false;
}

DType arithmetic_dtype(std::span<const TensorView* const> views) {
  return have_several_dtypes(views) ? DType::f32 : views.front()->dtype;
}

void check_arithmetic(const char* op, std::string_view name, const TensorView& x, const TensorView& first) {
  const bool is_f64 = first.dtype == DType::f64;
  const bool fits = is_floating(x.dtype) && (x.dtype == DType::f64) == is_f64;
  check(fits, op, ": ", name, " is ", x.dtype, ", should be ", is_f64 ? "f64" : "f32, bf16 or f16");
}

void check_view(const char* op, std::string_view name, const TensorView& x, const Shape& shape, DType dtype) {
  check(x.shape == shape, op, ": ", name, " has shape ", x.shape, ", should have ", shape);
  check(x.dtype == dtype, op, ": ", name, " is ", x.dtype, ", should be ", dtype);
}

void check_contiguous(const char* op, std::string_view name, const TensorView& x, const TensorView& like) {
  check_view(op, name, x, like.shape, like.dtype);
  check(x.is_contiguous(), op, ": ", name, " needs to be contiguous, has strides ", x.strides);
}

void check_rows(const char* op, std::string_view name, const TensorView& x) {
  check(x.rank() >= 1, op, ": ", name, " needs at least one dimension");
  check(x.size(-1) <= 1 || x.stride(-1) == 1, op, ": ", name,
        " needs stride 1 in the last dimension, has strides ", x.strides);
}

void check_same_rows(const char* op, const TensorView& first, std::span<const TensorView* const> views) {
  check(first.rank() >= 1, op, ": needs at least one dimension");
  for (const TensorView* view : views) {
    check(view->shape == first.shape, op, ": shapes differ: ", first.shape, " and ", view->shape);
    check(is_floating(first.dtype), op, ": needs a floating dtype, got ", first.dtype);
    check_arithmetic(op, "one of the rows", *view, first);
    check(view->size(-1) <= 1 || view->stride(-1) == 1, op,
          ": needs stride 1 in the last dimension, got strides ", view->strides);
  }
}

void check_parameter(const char* op, std::string_view name, const TensorView& x, int64_t width) {
  if (!x) return;
  check(x.shape == Shape{width}, op, ": ", name, " has shape ", x.shape, ", should have ", Shape{width});
  check(is_floating(x.dtype), op, ": ", name, " needs a floating dtype, is ", x.dtype);
}

void check_statistic(const char* op, std::string_view name, const TensorView& x, const TensorView& rows_view,
                     DType dtype) {
  if (!x) return;
  check(x.dtype == dtype, op, ": ", name, " is ", x.dtype, ", should be ", dtype);
  int64_t rows = 1;
  for (int dim = 0; dim + 1 < rows_view.rank(); ++dim) rows *= rows_view.shape[dim];
  check(x.numel() == rows, op, ": ", name, " has shape ", x.shape, ", needs one value per row of ",
        rows_view.shape);
  check(x.is_contiguous(), op, ": ", name, " needs to be contiguous, has strides ", x.strides);
}

}  // namespace reprise::kernels
