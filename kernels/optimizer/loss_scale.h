// The scale of a loss, from update to update.
#pragma once

#include "reprise/kernels/kernel.h"

namespace reprise::kernels {

/// A loss scale and what it depends on, each one element.
struct LossScale {
  TensorView scale{};       ///< f32
  TensorView good{};        ///< i32: updates since the scale was changed
  TensorView hysteresis{};  ///< i32: bad updates that are left before it backs off
  TensorView skipped{};     ///< i64: bad updates, in all
  TensorView in_a_row{};    ///< i32: of them without a good one since
};

struct LossScaleOptions {
  float growth = 2, backoff = 0.5;
  int32_t interval = 2000;  ///< good updates before the scale grows
  int32_t hysteresis = 1;   ///< bad updates before it backs off
};

/// After an update whose gradients were finite (found, i32, is 0) or not: scale *= backoff, or, each `interval` good
/// updates, scale *= growth if that is finite. PyTorch's torch._amp_update_scale_, but that the scale stays at 2^-126 at least:
/// gradients divided by 0 would be NaN. With a hysteresis above 1 the first bad updates only count; a good one starts that
/// count again.
extern Kernel<void(const TensorView& found, const LossScale& state, const LossScaleOptions& options)>
    update_loss_scale;

}  // namespace reprise::kernels
