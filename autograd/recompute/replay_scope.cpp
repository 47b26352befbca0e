// Entering and leaving a replay.
#include "reprise/autograd/recompute/replay_scope.h"

namespace reprise::recompute {
namespace {
thread_local int replay_depth = 0;
}  // namespace

bool is_replaying() { return replay_depth > 0; }

ReplayScope::ReplayScope(const std::vector<autograd::DrawnGenerator>* drawn, const ScopeFactory& context) {
  if (drawn) generators_.emplace(*drawn);
  if (context) context_ = context();
  ++replay_depth;
}

ReplayScope::~ReplayScope() { --replay_depth; }

}  // namespace reprise::recompute
