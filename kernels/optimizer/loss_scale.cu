// The rule of a loss scale on CUDA: scale *= backoff where an update was bad, scale *= growth after `interval` good ones, in 24 bytes. One
// thread, so that the host need not wait for what was found.
#include <limits>

#include "reprise/kernels/cuda/types.cuh"
#include "reprise/kernels/optimizer/loss_scale_checks.h"
#include "reprise/simt/simt.h"

namespace reprise::kernels {
namespace {

using namespace device;

struct State {
  float* scale;
  int32_t *good, *hysteresis, *in_a_row;
  int64_t* skipped;
};

/// Good: each `interval` updates scale = scale growth, if that is finite. Bad: scale = scale backoff, if that is at least 2^-126.
__global__ void update_loss_scale_kernel(const int32_t* found, State state, LossScaleOptions options) {
  if (*found == 0) {
    *state.hysteresis = options.hysteresis;
    *state.in_a_row = 0;
    const int32_t good = *state.good + 1;
    *state.good = good < options.interval ? good : 0;
    const float grown = *state.scale * options.growth;
    if (good >= options.interval && grown <= std::numeric_limits<float>::max()) *state.scale = grown;
    return;
  }
  *state.good = 0;
  *state.skipped += 1;
  *state.in_a_row += 1;
  *state.hysteresis -= 1;
  const float less = *state.scale * options.backoff;
  if (*state.hysteresis <= 0 && less >= std::numeric_limits<float>::min()) *state.scale = less;
}

void update_loss_scale_cuda(const Stream& stream, const TensorView& found, const LossScale& state,
                            const LossScaleOptions& options) {
  check_loss_scale(found, state, options);
  simt::launch({.name = "update_loss_scale", .grid = 1, .block = 1, .stream = stream},
               update_loss_scale_kernel, static_cast<const int32_t*>(found.as<int32_t>()),
               State{state.scale.as<float>(), state.good.as<int32_t>(), state.hysteresis.as<int32_t>(),
                     state.in_a_row.as<int32_t>(), state.skipped.as<int64_t>()},
               options);
}

const OnCuda update_loss_scale_on_cuda{update_loss_scale, update_loss_scale_cuda};

}  // namespace
}  // namespace reprise::kernels
