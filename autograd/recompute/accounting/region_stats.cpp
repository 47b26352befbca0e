// Measuring a region's runs.
#include "reprise/autograd/recompute/accounting/region_stats.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/recompute/accounting/ledger.h"
#include "reprise/autograd/recompute/update_state.h"

namespace reprise::recompute {

StorageTally::StorageTally(const TensorList& given, const Captures& captures) : captures_(captures) {
  for (const Tensor& x : given)
    if (x.defined()) seen_.emplace(x.storage().get(), x.storage());
}

void StorageTally::add(const Tensor& x) {
  const std::shared_ptr<Storage>& storage = x.storage();
  if (!captures_.has(*storage) && seen_.emplace(storage.get(), storage).second) bytes_ += storage->bytes();
}

std::shared_ptr<RegionLog> RegionLog::open() {
  std::shared_ptr<Ledger> ledger = Ledger::of_thread();
  if (!ledger) return nullptr;
  auto log = std::make_shared<RegionLog>();
  log->ledger_ = std::move(ledger);
  log->name_ = autograd::op_scope();
  log->is_around_ = !log->name_.empty();
  log->in_replay_ = is_replaying();
  return log;
}

void RegionLog::note_scope() {
  if (is_around_) return;
  std::string scope = autograd::op_scope();
  if (name_.empty()) name_ = scope;
  last_scope_ = std::move(scope);
}

void RegionLog::wait(Device device) const {
  if (ledger_->clock == ReplayClock::device) synchronize(device);
}

void RegionLog::add(Run run, size_t bytes, ReplayTime::Clock::time_point begin) {
  if (run == Run::first && !last_scope_.empty() && last_scope_ != name_) name_ += " .. " + last_scope_;
  is_around_ |= run == Run::first;  // the name is settled
  ledger_->change(name_, [&](RegionAccount& account, std::vector<ReplayTime>& replays) {
    bool first_to_know = !saved_known_ && (run == Run::replay || bytes > 0);
    if (run == Run::first) account.calls += in_replay_ ? 0 : 1;
    if (first_to_know && !in_replay_) account.bytes_saved += bytes;
    saved_known_ |= first_to_know;
    if (run == Run::first) return;
    ++account.replays;
    account.bytes_recomputed += bytes;
    replays.push_back({name_, begin, ReplayTime::Clock::now()});
    account.replay_seconds += std::chrono::duration<double>(replays.back().end - begin).count();
  });
}

void RegionLog::add_kept(size_t bytes) {
  if (in_replay_) return;
  ledger_->change(name_, [&](RegionAccount& account, auto&) { account.bytes_kept += bytes; });
}

CountedRun::CountedRun(const std::shared_ptr<RegionLog>& log, RegionLog::Run run, const TensorList& inputs,
                       const Captures& captures)
    : log_(log), run_(run) {
  if (!log_) return;
  tally_.emplace(inputs, captures);
  for (const Tensor& x : inputs)
    if (x.defined()) device_ = x.device();
  if (run == RegionLog::Run::replay) log_->wait(device_);
  begin_ = ReplayTime::Clock::now();
}

void CountedRun::finish() {
  if (!log_) return;
  if (run_ == RegionLog::Run::replay) log_->wait(device_);
  log_->add(run_, tally_->bytes(), begin_);
}

}  // namespace reprise::recompute
