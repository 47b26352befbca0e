// Accounting: what recompute saves and costs, region by region.
//
//   rp::recompute::Accounting accounting;
//   loss(model, batch).backward();
//   for (auto& region : accounting.regions()) print(region.name, region.bytes_saved, region.replay_seconds);
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace reprise::recompute {

/// Totals over the regions of one name: the OpScope around the call of `checkpoint`, or the first and the
/// last one inside it ("h.0 .. h.3") where there is none around it.
struct RegionStats {
  std::string name;             ///< "total" for `Accounting::total`
  int64_t calls = 0;            ///< first runs; those of regions inside a replay do not count
  int64_t replays = 0;          ///< of all regions, those inside a replay too
  size_t bytes_saved = 0;       ///< of tensors that the graph would hold without the checkpoint
  size_t bytes_kept = 0;        ///< of tensors that a policy holds on the device all the same
  size_t bytes_recomputed = 0;  ///< of tensors that replays made anew for backward
  double replay_seconds = 0;    ///< of `replays`, by the Accounting's ReplayClock
};

/// When a replay ran.
struct ReplayTime {
  using Clock = std::chrono::steady_clock;  ///< the host's clock, whatever the ReplayClock
  std::string name;                         ///< of the region, as in RegionStats
  /// @{
  /// When it began and ended; with ReplayClock::device, once the device had done the work up to there.
  Clock::time_point begin, end;
  /// @}
};

/// What a replay's seconds are. A CUDA device works on after a replay has returned.
enum class ReplayClock : uint8_t {
  host,    ///< the time of the host
  device,  ///< the time until the work is done: waits for the device around each replay
};

struct StatsTable;

/// Counts the checkpoints that its thread calls while it lives, and their replays on whatever thread; the
/// innermost one counts. Bytes are those of storages: each once a region, without the region's inputs and
/// what `fn` captured. Where none lives, nothing is measured. Its functions may be called from any thread.
class Accounting {
 public:
  explicit Accounting(ReplayClock clock = ReplayClock::host);  ///< counts from now on, on this thread
  ~Accounting();
  Accounting(const Accounting&) = delete;

  std::vector<RegionStats> regions() const;  ///< in the order in which their first runs ended
  RegionStats total() const;                 ///< the sums over `regions`
  std::vector<ReplayTime> replays() const;   ///< in the order in which they ended
  void reset();                              ///< forgets all that was counted

 private:
  std::shared_ptr<StatsTable> table_, outer_;
};

}  // namespace reprise::recompute
