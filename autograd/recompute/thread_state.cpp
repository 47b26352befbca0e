// The states that replays restore.
#include "reprise/autograd/recompute/thread_state.h"

#include <mutex>

#include "reprise/core/fork.h"

namespace reprise::recompute {
namespace {

struct Noted {
  ForkSafeMutex mutex;
  std::vector<std::function<ScopeFactory()>> notes;
};

Noted& noted() {
  static auto* one = new Noted;  // never destroyed: a static's destructor may compute
  return *one;
}

}  // namespace

void restore_in_replays(std::function<ScopeFactory()> note) {
  std::lock_guard lock(noted().mutex);
  noted().notes.push_back(std::move(note));
}

ThreadState ThreadState::now() {
  std::vector<std::function<ScopeFactory()>> notes;
  {
    std::lock_guard lock(noted().mutex);
    notes = noted().notes;  // they are the user's: not to be called under a lock
  }
  ThreadState state;
  for (const auto& note : notes) state.scopes_.push_back(note());
  return state;
}

std::vector<std::shared_ptr<void>> ThreadState::enter() const {
  std::vector<std::shared_ptr<void>> entered;
  for (const ScopeFactory& scope : scopes_) entered.push_back(scope());
  return entered;
}

}  // namespace reprise::recompute
