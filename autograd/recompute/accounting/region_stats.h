// How a region's runs get into the Accounting that it was called under.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "reprise/autograd/recompute/accounting/accounting.h"
#include "reprise/autograd/recompute/replay/captures.h"

namespace reprise::recompute {

/// Bytes of tensors, each storage once, without those that a region was given or captured.
class StorageTally {
 public:
  StorageTally(const TensorList& given, const Captures& captures);
  void add(const Tensor& x);
  size_t bytes() const { return bytes_; }

 private:
  const Captures& captures_;
  size_t bytes_ = 0;
  std::unordered_map<const Storage*, std::weak_ptr<Storage>>
      seen_;  // weak: keeps addresses from being reused
};

/// One call of `checkpoint`.
class RegionLog {
 public:
  /// Null where nobody counts.
  static std::shared_ptr<RegionLog> open();

  enum class Run : uint8_t { first, replay };
  void add(Run run, size_t bytes, ReplayTime::Clock::time_point begin);
  /// A policy holds so many bytes on the device.
  void add_kept(size_t bytes);
  /// An operation ran: its OpScope may be the region's name.
  void note_scope();
  /// Waits for `device` where the Accounting asks for its time.
  void wait(Device device) const;

 private:
  std::shared_ptr<Ledger> ledger_;
  std::string name_, last_scope_;
  bool is_around_ = false;  // the name is that of the scope around the call
  bool in_replay_ = false;
  bool saved_known_ = false;
};

/// Counts one run of a region, if anybody counts at all: `saved` for each tensor kept for backward, `finish`
/// at the end.
class CountedRun {
 public:
  CountedRun(const std::shared_ptr<RegionLog>& log, RegionLog::Run run, const TensorList& inputs,
             const Captures& captures);
  void saw_operation() {
    if (log_) log_->note_scope();
  }
  void saved(const Tensor& x) {
    if (log_) tally_->add(x);
  }
  bool counts() const { return log_ != nullptr; }
  void finish();

 private:
  std::shared_ptr<RegionLog> log_;
  RegionLog::Run run_;
  std::optional<StorageTally> tally_;
  Device device_;
  ReplayTime::Clock::time_point begin_;
};

}  // namespace reprise::recompute
