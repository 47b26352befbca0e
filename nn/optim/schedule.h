// Learning-rate schedules: pure functions of the step.
#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::optim {

/// What a rate does after its warm-up.
enum class Decay : uint8_t {
  constant,  ///< stays at the peak
  linear,    ///< a straight line to min_lr
  cosine,    ///< half a cosine to min_lr (Loshchilov and Hutter 2017)
  wsd,       ///< warm-up, stable, decay: at the peak, then a straight line to min_lr (Hu et al. 2024)
  step,      ///< a tenth after each third of the run, as He et al. 2016 have it
};

/// Linear warm-up, then the decay. The first update is step 0. Error if what is set has no effect with
/// its decay: `min_lr` with constant and step, `wsd_fraction` with any but wsd, `start_lr` without warm-up; and
/// without `steps`, which only constant does not need.
///
/// A schedule of weight decay is one too, such as I-JEPA's from 0.04 to 0.4:
/// `optimizer.set_weight_decay(Schedule{.lr = 0.04, .min_lr = 0.4, .steps = steps}(step))`.
struct Schedule {
  double lr = 1e-3;     ///< the peak
  double min_lr = 0;    ///< where linear, cosine and wsd end
  int64_t warmup = 0;   ///< steps; step s < warmup has start_lr + (lr - start_lr) * (s + 1) / (warmup + 1)
  double start_lr = 0;  ///< where warm-up begins, one step before the first
  int64_t steps = 0;    ///< of the whole run; from here on min_lr
  Decay decay = Decay::cosine;  ///< what comes after the warm-up
  double wsd_fraction = 0.2;    ///< of the run, at its end, that wsd spends decaying linearly

  /// The rate of a step, from 0 on; Error below.
  double operator()(int64_t step) const;
};

/// Whether `min_lr` is where it ends.
bool ends_at_min_lr(Decay decay);

/// "constant", "linear", "cosine", "wsd" or "step". Error otherwise.
Decay parse_decay(std::string_view name);

}  // namespace reprise::optim
