// What a step must know of its gradients: their norm, and whether all are finite. Each element is read once.
#pragma once

#include <span>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// norm (f64 scalar) = sqrt(sum of squares over all tensors), accumulated in f64 over fixed pieces.
extern Kernel<void(std::span<const TensorView> tensors, const TensorView& norm)> global_norm;

/// found (i32 scalar) = 1 if any element of any tensor is infinite or NaN, else 0.
extern Kernel<void(std::span<const TensorView> tensors, const TensorView& found)> check_finite;

/// What norm_and_check reads and writes, each one element.
struct GradientCheck {
  TensorView scale{};           ///< f32: the loss, and so each gradient, was multiplied by it; absent: by 1
  double clip = 0;              ///< the largest norm of an update's gradients; 0: any
  TensorView found{};           ///< i32: 0, or 1 + the place of the first tensor that is not finite
  TensorView norm{};            ///< f64: of the gradients divided by `scale`
  TensorView gradient_scale{};  ///< f64: 1 / scale, times min(1, clip / (norm + 1e-6))
};

/// One pass over all gradients: norm as global_norm has it, found, and what to multiply them by in the step. A
/// gradient in f64 above 1e154, whose square is infinite, counts as not finite.
extern Kernel<void(std::span<const TensorView> tensors, const GradientCheck& check)> norm_and_check;

/// Elements of a tensor whose squares are added by themselves, before those of the pieces are added in their order.
inline constexpr int64_t kSquaresPiece = 16384;

/// squares (f64, (pieces)) = the sum of squares of each piece of each tensor, in order: what global_norm adds. A tensor
/// may be a part of a larger one that begins with one of its pieces.
extern Kernel<void(std::span<const TensorView> tensors, const TensorView& squares)> squares_of_pieces;

/// The squares of the pieces of several tensors, wherever they stand.
struct PieceSquares {
  TensorView squares{};  ///< f64, one dimension
  TensorView order{};    ///< i32, (pieces): which of the squares is that of each piece, tensor by tensor
  TensorView places{};   ///< i32, (pieces): which tensor it is a piece of
};

/// norm_and_check, with its bits, of tensors of which these are the squares of all pieces.
extern Kernel<void(const PieceSquares& pieces, const GradientCheck& check)> check_squares;

}  // namespace reprise::kernels
