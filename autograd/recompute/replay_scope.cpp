// Entering and leaving a replay.
#include "reprise/autograd/recompute/replay_scope.h"

namespace reprise::recompute {
namespace {
thread_local const ReplayScope* innermost = nullptr;
}  // namespace

bool is_replaying() { return ReplayScope::active(); }

ReplayScope::ReplayScope(const std::vector<autograd::DrawnGenerator>* drawn, const Captures& captures,
                         const ScopeFactory& context)
    : captures_(captures), outer_(innermost) {
  if (drawn) generators_.emplace(*drawn);
  if (context) context_ = context();
  innermost = this;
}

ReplayScope::~ReplayScope() { innermost = outer_; }

bool ReplayScope::active() { return innermost != nullptr; }

bool ReplayScope::first_run_used(const autograd::AutogradMeta& leaf) {
  for (const ReplayScope* scope = innermost; scope; scope = scope->outer_)
    if (scope->captures_.has_leaf(leaf)) return true;
  return false;
}

}  // namespace reprise::recompute
