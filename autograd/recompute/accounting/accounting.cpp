// The scope object and its totals.
#include "reprise/autograd/recompute/accounting/accounting.h"

#include "reprise/autograd/recompute/accounting/ledger.h"

namespace reprise::recompute {
namespace {
thread_local std::shared_ptr<Ledger> innermost;
}  // namespace

std::shared_ptr<Ledger> Ledger::of_thread() { return innermost; }

Accounting::Accounting(ReplayClock clock)
    : ledger_(std::make_shared<Ledger>(clock)), outer_(Ledger::of_thread()) {
  innermost = ledger_;
}

Accounting::~Accounting() { innermost = outer_; }

std::vector<RegionAccount> Accounting::regions() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->accounts;
}

RegionAccount Accounting::total() const {
  RegionAccount total{.name = "total"};
  for (const RegionAccount& region : regions()) {
    total.calls += region.calls;
    total.replays += region.replays;
    total.bytes_saved += region.bytes_saved;
    total.bytes_kept += region.bytes_kept;
    total.bytes_recomputed += region.bytes_recomputed;
    total.replay_seconds += region.replay_seconds;
  }
  return total;
}

std::vector<ReplayTime> Accounting::replays() const {
  std::lock_guard lock(ledger_->mutex);
  return ledger_->replays;
}

void Accounting::reset() {
  std::lock_guard lock(ledger_->mutex);
  ledger_->accounts.clear();
  ledger_->replays.clear();
}

}  // namespace reprise::recompute
