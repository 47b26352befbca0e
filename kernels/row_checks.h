// Checks of the views that row kernels take, on any device.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "reprise/core/view.h"

namespace reprise::kernels {

/// Rows of a view: the elements of all dimensions but the last. 0 for an empty view.
inline int64_t rows_of(const TensorView& x) {
  int64_t count = x.numel();
  return count == 0 ? 0 : count / x.size(-1);
}

/// Whether the views that are there differ in their dtypes.
bool have_several_dtypes(std::span<const TensorView* const> views);
/// The dtype of kernels for them: their own, or f32 where they have several, none of which is f64.
DType arithmetic_dtype(std::span<const TensorView* const> views);
/// Error naming `op` and `name` unless x is f64 as `first` is, or f32, bf16 or f16 as `first` is one of these.
void check_arithmetic(const char* op, std::string_view name, const TensorView& x, const TensorView& first);
/// Error naming `op` and `name` unless x has this shape and dtype.
void check_view(const char* op, std::string_view name, const TensorView& x, const Shape& shape, DType dtype);
/// Error unless x has the shape and dtype of `like`, and is contiguous.
void check_contiguous(const char* op, std::string_view name, const TensorView& x, const TensorView& like);
/// Error unless the rows of x are contiguous.
void check_rows(const char* op, std::string_view name, const TensorView& x);
/// Error unless all views are rows of the shape of `first`, contiguous along them, and of dtypes that
/// `check_arithmetic` lets stand beside each other.
void check_same_rows(const char* op, const TensorView& first, std::span<const TensorView* const> views);
/// Error unless x is absent, or a floating vector of `width` elements.
void check_parameter(const char* op, std::string_view name, const TensorView& x, int64_t width);
/// Error unless x is absent, or one value per row of `rows_view`, contiguous, of `dtype`.
void check_statistic(const char* op, std::string_view name, const TensorView& x, const TensorView& rows_view,
                     DType dtype);

}  // namespace reprise::kernels
