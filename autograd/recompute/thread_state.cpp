// The states that replays keep.
#include "reprise/autograd/recompute/thread_state.h"

#include <mutex>

namespace reprise::recompute {
namespace {

struct Kept {
  std::mutex mutex;
  std::vector<std::function<ScopeFactory()>> notes;
};

Kept& kept() {
  static Kept kept;
  return kept;
}

}  // namespace

void keep_in_replays(std::function<ScopeFactory()> note) {
  std::lock_guard lock(kept().mutex);
  kept().notes.push_back(std::move(note));
}

ThreadState ThreadState::now() {
  std::lock_guard lock(kept().mutex);
  ThreadState state;
  for (const auto& note : kept().notes) state.scopes_.push_back(note());
  return state;
}

std::vector<std::shared_ptr<void>> ThreadState::enter() const {
  std::vector<std::shared_ptr<void>> entered;
  for (const ScopeFactory& scope : scopes_) entered.push_back(scope());
  return entered;
}

}  // namespace reprise::recompute
