// Ledger: what an Accounting has collected; the regions that were called under it write to it, from any
// thread.
#pragma once

#include <mutex>

#include "reprise/autograd/recompute/accounting/accounting.h"

namespace reprise::recompute {

struct Ledger {
  explicit Ledger(ReplayClock c) : clock(c) {}

  /// That of the thread's innermost Accounting; null if there is none.
  static std::shared_ptr<Ledger> of_thread();

  /// Calls `edit(account of that name, replays)` while nobody else reads or writes.
  template <class Edit>
  void change(const std::string& name, const Edit& edit) {
    std::lock_guard lock(mutex);
    for (RegionAccount& account : accounts)
      if (account.name == name) return edit(account, replays);
    edit(accounts.emplace_back(RegionAccount{.name = name}), replays);
  }

  const ReplayClock clock;
  std::mutex mutex;
  std::vector<RegionAccount> accounts;
  std::vector<ReplayTime> replays;
};

}  // namespace reprise::recompute
