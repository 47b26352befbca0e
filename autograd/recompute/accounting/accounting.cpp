// The scope object and its totals.
#include "reprise/autograd/recompute/accounting/accounting.h"

#include "reprise/autograd/recompute/accounting/region_stats.h"

namespace reprise::recompute {
namespace {
thread_local std::shared_ptr<StatsTable> innermost;
}  // namespace

std::shared_ptr<StatsTable> StatsTable::of_thread() { return innermost; }

Accounting::Accounting(ReplayClock clock)
    : table_(std::make_shared<StatsTable>(clock)), outer_(StatsTable::of_thread()) {
  innermost = table_;
}

Accounting::~Accounting() { innermost = outer_; }

std::vector<RegionStats> Accounting::regions() const {
  std::lock_guard lock(table_->mutex);
  return table_->accounts;
}

RegionStats Accounting::total() const {
  RegionStats total{.name = "total"};
  for (const RegionStats& region : regions()) {
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
  std::lock_guard lock(table_->mutex);
  return table_->replays;
}

void Accounting::reset() {
  std::lock_guard lock(table_->mutex);
  table_->accounts.clear();
  table_->replays.clear();
}

}  // namespace reprise::recompute
