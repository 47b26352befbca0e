// How a region's runs get into the Accounting that it was called under.
#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/core/tensor.h"

namespace reprise::recompute {

/// What an Accounting has collected; the regions that were called under it write to it, from any thread.
struct StatsTable {
  explicit StatsTable(ReplayClock c) : clock(c) {}

  /// That of the thread's innermost Accounting; null if there is none.
  static std::shared_ptr<StatsTable> of_thread();

  /// Calls `edit(account of that name, replays)` while no other thread reads or writes.
  template <class Edit>
  void change(const std::string& name, const Edit& edit) {
    std::lock_guard lock(mutex);
    for (RegionStats& account : accounts)
      if (account.name == name) return edit(account, replays);
    edit(accounts.emplace_back(RegionStats{.name = name}), replays);
  }

  const ReplayClock clock;
  std::mutex mutex;
  std::vector<RegionStats> accounts;
  std::vector<ReplayTime> replays;
};

/// Bytes of tensors, each storage once, without those that a region was given or captured.
class StorageTally {
 public:
  using IsCaptured = std::function<bool(const Storage&)>;
  StorageTally(const TensorList& given, IsCaptured is_captured);
  void add(const Tensor& x);
  size_t bytes() const { return bytes_; }

 private:
  IsCaptured is_captured_;
  size_t bytes_ = 0;
  std::unordered_map<const Storage*, std::weak_ptr<Storage>>
      seen_;  // weak: keeps addresses from being reused
};

/// One call of `checkpoint`.
class CallStats {
 public:
  /// Null where nothing is counted.
  static std::shared_ptr<CallStats> open();

  enum class Run : uint8_t { first, replay };
  void add(Run run, size_t bytes, ReplayTime::Clock::time_point begin);
  /// A policy holds so many bytes on the device.
  void add_kept(size_t bytes);
  /// An operation ran: its OpScope may be the region's name.
  void note_scope();
  /// Waits for `device` where the Accounting asks for its time.
  void wait(Device device) const;

 private:
  std::shared_ptr<StatsTable> table_;
  std::string name_, last_scope_;
  bool is_around_ = false;  // the name is that of the scope around the call
  bool in_replay_ = false;
  bool saved_known_ = false;
};

/// Counts one run of a region, if anything is counted at all: `saved` for each tensor saved for backward,
/// `finish` at the end.
class RunStats {
 public:
  RunStats(const std::shared_ptr<CallStats>& call, CallStats::Run run, const TensorList& inputs,
           StorageTally::IsCaptured is_captured);
  void saw_operation() {
    if (call_) call_->note_scope();
  }
  void saved(const Tensor& x) {
    if (call_) tally_->add(x);
  }
  bool counts() const { return call_ != nullptr; }
  void finish();

 private:
  std::shared_ptr<CallStats> call_;
  CallStats::Run run_;
  std::optional<StorageTally> tally_;
  Device device_;
  ReplayTime::Clock::time_point begin_;
};

}  // namespace reprise::recompute
