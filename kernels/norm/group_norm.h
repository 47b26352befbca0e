// Group normalisation (Wu and He 2018): for each sample n and group g of C / groups channels of x (N, C,
// ...),
//   y = (x - mean) * rstd * gamma + beta,   rstd = 1 / sqrt(variance + eps)
// with a mean and a variance per (n, g), and a gamma and a beta per channel. A group of a sample is one row
// of contiguous memory. Forward reads x and writes y: 2 elements for each of x. Backward reads dy and x
// twice, first for the sums of each channel, and writes dx: 5.
#pragma once

#include <array>

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

// Arithmetic is in f32 (f64 for f64); what is (N, C, ...) may be of f32 and 16 bits, each its own, and a result is rounded once.

/// x and y are contiguous (N, C, ...); `groups` divides C. y may be x.
struct GroupNormArguments {
  TensorView x;
  int64_t groups = 1;
  TensorView gamma{}, beta{};  ///< (C), of any floating dtype and stride, each optional
  double eps = 0;
  TensorView y;
  TensorView mean{}, rstd{};  ///< f32 (f64 for f64), (N, groups), contiguous, each optional
};
extern Kernel<void(const GroupNormArguments& arguments)> group_norm;
inline std::array<const TensorView*, 2> rows_of_norm(const GroupNormArguments& v) { return {&v.x, &v.y}; }

/// The gradients, which are overwritten; each output is optional. dx may be dy.
struct GroupNormBackwardArguments {
  TensorView dy, x;
  int64_t groups = 1;
  TensorView gamma{};
  TensorView mean, rstd;         ///< as `group_norm` wrote them
  TensorView dx{};               ///< like x
  TensorView dgamma{}, dbeta{};  ///< like gamma
};
extern Kernel<void(const GroupNormBackwardArguments& arguments)> group_norm_backward;
inline std::array<const TensorView*, 3> rows_of_norm(const GroupNormBackwardArguments& v) {
  return {&v.x, &v.dy, &v.dx};
}

/// (N, C, ...) in groups, as four numbers; constexpr, so that nvcc takes the functions to the device too.
struct GroupShape {
  int64_t samples, groups;
  int64_t channels;  ///< of a group
  int64_t places;    ///< of a channel

  constexpr int64_t rows() const { return samples * groups; }
  constexpr int64_t width() const { return channels * places; }  ///< of a row
  constexpr int64_t all_channels() const { return groups * channels; }
};

/// Contiguous memory as rows of `width`, which is above 0; an absent view has none.
TensorView as_rows(TensorView view, int64_t width);

/// Error unless the views fit together.
GroupShape check_group_norm(const GroupNormArguments& arguments);
GroupShape check_group_norm_backward(const GroupNormBackwardArguments& arguments);

}  // namespace reprise::kernels
