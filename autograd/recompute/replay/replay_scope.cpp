// Entering a replay.
#include "reprise/autograd/recompute/replay/replay_scope.h"

namespace reprise::recompute {

ReplayScope::ReplayScope(const Recording& first)
    : autocast_(first.thread.autocast()),
      matmul_precision_(first.thread.matmul_precision()),
      substitution_(first.thread.substitutes(), autograd::Substitution::InPlace::ends_here),
      thread_(first.thread.enter()) {
  if (first.options.preserve_rng) generators_.emplace(first.drawn);
  if (first.options.context.replay) context_ = first.options.context.replay();
  filter_.emplace(first.captures);
}

ReplayScope::~ReplayScope() {
  while (!thread_.empty()) thread_.pop_back();  // the innermost first
}

void ReplayScope::Filter::check_own_write(const char* method, const Tensor& x) const {
  check(!captures_.wrote(x), method,
        ": a checkpoint plays its region again, and fn changes a tensor of shape ", x.shape(),
        " in place that its first run has changed; change state by rp::update_state");
}

}  // namespace reprise::recompute
