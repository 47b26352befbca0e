// ThreadState: what a thread has set for the operations that run on it, autocast's dtype say. A replay runs
// under what the first run had, whatever holds where backward is called.
#pragma once

#include "reprise/autograd/recompute/checkpoint.h"

namespace reprise::recompute {

/// For code that adds such a state: from now on each region, in either mode, calls `note` before its first
/// run, and what that gives makes the scopes that its replays run in. Each replay enters a new one: a cache
/// in it belongs to that replay. Several states are independent of each other.
///
///   rp::restore_in_replays([] {
///     return [dtype = autocast_dtype()] { return std::make_shared<Autocast>(dtype); };
///   });
void restore_in_replays(std::function<ScopeFactory()> note);

class ThreadState {
 public:
  ThreadState() = default;
  /// This thread's.
  static ThreadState now();
  /// It holds as long as these live.
  std::vector<std::shared_ptr<void>> enter() const;

 private:
  std::vector<ScopeFactory> scopes_;
};

}  // namespace reprise::recompute

namespace reprise {
using recompute::restore_in_replays;
}
