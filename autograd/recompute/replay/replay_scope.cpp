// Entering and leaving a replay.
#include "reprise/autograd/recompute/replay/replay_scope.h"

namespace reprise::recompute {
namespace {
thread_local const ReplayScope* innermost = nullptr;
}  // namespace

bool is_replaying() { return ReplayScope::active(); }

void check_write(const char* method, const Tensor& x) {
  check(!ReplayScope::first_run_wrote(x), method,
        ": a checkpoint plays its region again, and fn changes a tensor of shape ", x.shape(),
        " in place that its first run has changed; change state by rp::update_state");
}

ReplayScope::ReplayScope(const Recording& first)
    : captures_(first.captures), outer_(innermost), thread_(first.thread.enter()) {
  if (first.options.preserve_rng) generators_.emplace(first.drawn);
  if (first.options.context.replay) context_ = first.options.context.replay();
  innermost = this;
}

ReplayScope::~ReplayScope() { innermost = outer_; }

bool ReplayScope::active() { return innermost != nullptr; }

bool ReplayScope::first_run_wrote(const Tensor& x) {
  for (const ReplayScope* scope = innermost; scope; scope = scope->outer_)
    if (scope->captures_.wrote(x)) return true;
  return false;
}

bool ReplayScope::first_run_used(const autograd::AutogradMeta& leaf) {
  for (const ReplayScope* scope = innermost; scope; scope = scope->outer_)
    if (scope->captures_.has_leaf(leaf)) return true;
  return false;
}

}  // namespace reprise::recompute
