// Measuring a region's runs.
#include "reprise/autograd/recompute/accounting/region_stats.h"

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/recompute/update_state.h"

namespace reprise::recompute {

StorageTally::StorageTally(const TensorList& given, IsCaptured is_captured)
    : is_captured_(std::move(is_captured)) {
  for (const Tensor& x : given)
    if (x.defined()) seen_.emplace(x.storage().get(), x.storage());
}

void StorageTally::add(const Tensor& x) {
  const std::shared_ptr<Storage>& storage = x.storage();
  if (!is_captured_(*storage) && seen_.emplace(storage.get(), storage).second) bytes_ += storage->bytes();
}

std::shared_ptr<CallStats> CallStats::open() {
  std::shared_ptr<StatsTable> table = StatsTable::of_thread();
  if (!table) return nullptr;
  auto call = std::make_shared<CallStats>();
  call->table_ = std::move(table);
  call->name_ = autograd::op_scope();
  call->is_around_ = !call->name_.empty();
  call->in_replay_ = is_replaying();
  return call;
}

void CallStats::note_scope() {
  if (is_around_) return;
  std::string scope = autograd::op_scope();
  if (name_.empty()) name_ = scope;
  last_scope_ = std::move(scope);
}

void CallStats::wait(Device device) const {
  if (table_->clock == ReplayClock::device) synchronize(device);
}

void CallStats::add(Run run, size_t bytes, ReplayTime::Clock::time_point begin) {
  if (run == Run::first && !last_scope_.empty() && last_scope_ != name_) name_ += " .. " + last_scope_;
  is_around_ |= run == Run::first;  // the name is settled
  table_->change(name_, [&](RegionStats& account, std::vector<ReplayTime>& replays) {
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

void CallStats::add_kept(size_t bytes) {
  if (in_replay_) return;
  table_->change(name_, [&](RegionStats& account, auto&) { account.bytes_kept += bytes; });
}

RunStats::RunStats(const std::shared_ptr<CallStats>& call, CallStats::Run run, const TensorList& inputs,
                   StorageTally::IsCaptured is_captured)
    : call_(call), run_(run) {
  if (!call_) return;
  tally_.emplace(inputs, std::move(is_captured));
  for (const Tensor& x : inputs)
    if (x.defined()) device_ = x.device();
  if (run == CallStats::Run::replay) call_->wait(device_);
  begin_ = ReplayTime::Clock::now();
}

void RunStats::finish() {
  if (!call_) return;
  if (run_ == CallStats::Run::replay) call_->wait(device_);
  call_->add(run_, tally_->bytes(), begin_);
}

}  // namespace reprise::recompute
