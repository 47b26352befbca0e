// What update_loss_scale checks, on any device.
#pragma once

#include "reprise/kernels/optimizer/gradient_norm_checks.h"
#include "reprise/kernels/optimizer/loss_scale.h"

namespace reprise::kernels {

inline void check_loss_scale(const TensorView& found, const LossScale& state,
                             const LossScaleOptions& options) {
  constexpr auto op = "update_loss_scale";
  check_over_tensors(op, {}, "found", found, DType::i32);
  check_over_tensors(op, {}, "scale", state.scale, DType::f32);
  check_over_tensors(op, {}, "good", state.good, DType::i32);
  check_over_tensors(op, {}, "hysteresis", state.hysteresis, DType::i32);
  check_over_tensors(op, {}, "skipped", state.skipped, DType::i64);
  check_over_tensors(op, {}, "in_a_row", state.in_a_row, DType::i32);
  check(options.interval >= 1, op, ": interval must be at least 1, got ", options.interval);
  check(options.hysteresis >= 1, op, ": hysteresis must be at least 1, got ", options.hysteresis);
}

}  // namespace reprise::kernels
