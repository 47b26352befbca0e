// What norms and checks of gradients check, on any device.
#pragma once

#include "reprise/kernels/optimizer/gradient_norm.h"

namespace reprise::kernels {

/// Error unless x is absent, or one element of `dtype`.
inline void check_scalar(const char* op, const char* name, const TensorView& x, DType dtype) {
  check(!x || (x.numel() == 1 && x.dtype == dtype), op, ": ", name, " needs one ", dtype, ", has ", x.shape,
        " ", x.dtype);
}

inline void check_floating(const char* op, std::span<const TensorView> tensors) {
  for (size_t t = 0; t < tensors.size(); ++t)
    check(is_floating(tensors[t].dtype), op, ": tensor ", t, " needs a floating dtype, is ",
          tensors[t].dtype);
}

/// Error unless all tensors are floating and `result`, called `name`, is one element of `dtype`.
inline void check_over_tensors(const char* op, std::span<const TensorView> tensors, const char* name,
                               const TensorView& result, DType dtype) {
  check(result.numel() == 1 && result.dtype == dtype, op, ": ", name, " needs one ", dtype, ", has ",
        result.shape, " ", result.dtype);
  check_floating(op, tensors);
}

inline void check_norm_and_check(std::span<const TensorView> tensors, const GradientCheck& given,
                                 const char* op = "norm_and_check") {
  check_over_tensors(op, tensors, "found", given.found, DType::i32);
  check_over_tensors(op, {}, "norm", given.norm, DType::f64);
  check_over_tensors(op, {}, "gradient_scale", given.gradient_scale, DType::f64);
  check_scalar(op, "scale", given.scale, DType::f32);
  check(given.clip >= 0, op, ": clip must be at least 0, got ", given.clip);
}

/// Error unless there is a number for each of the pieces of all tensors.
inline void check_squares_of_pieces(std::span<const TensorView> tensors, const TensorView& squares) {
  constexpr auto op = "squares_of_pieces";
  check_floating(op, tensors);
  int64_t pieces = 0;
  for (const TensorView& x : tensors) pieces += (x.numel() + kSquaresPiece - 1) / kSquaresPiece;
  check(squares.dtype == DType::f64 && squares.is_contiguous() && squares.numel() == pieces, op,
        ": squares needs f64(", pieces, "), is ", squares.dtype, squares.shape);
}

inline void check_piece_squares(const PieceSquares& pieces, const GradientCheck& given) {
  constexpr auto op = "check_squares";
  check_norm_and_check({}, given, op);
  auto check_list = [&](const char* name, const TensorView& x, DType dtype) {
    check(x.dtype == dtype && x.rank() == 1 && x.is_contiguous(), op, ": ", name, " needs a list of ", dtype,
          ", is ", x.dtype, x.shape);
  };
  check_list("squares", pieces.squares, DType::f64);
  check_list("order", pieces.order, DType::i32);
  check_list("places", pieces.places, DType::i32);
  check(pieces.order.numel() == pieces.places.numel(), op, ": ", pieces.order.numel(), " squares of ",
        pieces.places.numel(), " pieces");
}

}  // namespace reprise::kernels
