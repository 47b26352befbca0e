// The rule of a loss scale on the CPU.
#include "reprise/kernels/optimizer/loss_scale.h"

#include <cmath>
#include <limits>

#include "reprise/kernels/optimizer/loss_scale_checks.h"

namespace reprise::kernels {
namespace {

void update_loss_scale_cpu(const Stream&, const TensorView& found, const LossScale& state,
                           const LossScaleOptions& options) {
  check_loss_scale(found, state, options);
  float& scale = *state.scale.as<float>();
  int32_t &good = *state.good.as<int32_t>(), &hysteresis = *state.hysteresis.as<int32_t>();
  if (*found.as<int32_t>() == 0) {
    hysteresis = options.hysteresis;
    *state.in_a_row.as<int32_t>() = 0;
    if (++good < options.interval) return;
    good = 0;
    if (const float grown = scale * options.growth; std::isfinite(grown)) scale = grown;
    return;
  }
  good = 0;
  ++*state.skipped.as<int64_t>();
  ++*state.in_a_row.as<int32_t>();
  if (--hysteresis > 0) return;
  if (const float less = scale * options.backoff; less >= std::numeric_limits<float>::min()) scale = less;
}

}  // namespace

decltype(update_loss_scale) update_loss_scale{"update_loss_scale", update_loss_scale_cpu};

}  // namespace reprise::kernels
