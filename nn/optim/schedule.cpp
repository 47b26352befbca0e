// Learning-rate schedules.
#include "reprise/nn/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reprise/core/error.h"

namespace reprise::optim {
namespace {

// 0, 1 or 2: the last third does not end.
int64_t thirds_done(int64_t step, int64_t steps) {
  const int64_t third = std::max<int64_t>((steps + 2) / 3, 1);
  return std::min<int64_t>(step / third, 2);
}

}  // namespace

double Schedule::operator()(int64_t step) const {
  check(ends_at_min_lr(decay) || min_lr == 0, "Schedule: min_lr ", min_lr, " has no effect, as the decay is ",
        decay == Decay::step ? "step" : "constant");
  check(decay == Decay::wsd || wsd_fraction == Schedule().wsd_fraction, "Schedule: wsd_fraction ",
        wsd_fraction, " has no effect, as the decay is not wsd");
  check(warmup > 0 || start_lr == 0, "Schedule: start_lr ", start_lr,
        " has no effect, as there is no warm-up");
  check(steps > 0 || decay == Decay::constant, "Schedule: steps ", steps,
        ": every decay but constant needs the steps of the whole run");
  check(step >= 0, "Schedule: step ", step, "; the first is 0");
  if (step < warmup) return start_lr + (lr - start_lr) * double(step + 1) / (double(warmup) + 1);
  if (decay == Decay::constant) return lr;
  if (decay == Decay::step) return lr * std::pow(0.1, double(thirds_done(step, steps)));
  int64_t start = warmup;
  if (decay == Decay::wsd)
    start = std::max(warmup, steps - int64_t(std::llround(wsd_fraction * double(steps))));
  if (step < start) return lr;
  if (step >= steps) return min_lr;
  double done = double(step - start) / double(steps - start);  // 0 .. 1
  double left = decay == Decay::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * done)) : 1 - done;
  return min_lr + left * (lr - min_lr);
}

bool ends_at_min_lr(Decay decay) { return decay != Decay::constant && decay != Decay::step; }

Decay parse_decay(std::string_view name) {
  if (name == "constant") return Decay::constant;
  if (name == "linear") return Decay::linear;
  if (name == "cosine") return Decay::cosine;
  if (name == "wsd") return Decay::wsd;
  if (name == "step") return Decay::step;
  fail("schedule: unknown decay '", name, "'; use constant, linear, cosine, wsd or step");
}

}  // namespace reprise::optim
