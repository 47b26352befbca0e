// The times of a run's steps on ranks: what communication takes of a step, and how ranks compare.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "reprise/distributed/process_group.h"
#include "reprise/train/ranks/slow_ranks.h"
#include "reprise/train/run_records.h"

namespace reprise::train {

/// Measured times, which change nothing else. A rank's own time of a step is what it takes but for the time in which the computation
/// waits for calls. It is told to the others as the next step begins, in a call that is made anyway.
class RankTimes {
 public:
  /// `tell` is given what is to be said of a rank that is slow, with its machine's name where `hosts`, one for each rank, differ.
  RankTimes(distributed::ProcessGroup& group, std::function<void(const std::string&)> tell,
            const std::vector<std::string>& hosts)
      : group_(group), tell_(std::move(tell)), slow_(hosts) {}

  /// A step begins. What to tell the other ranks: the own seconds of the step before, 0 if there is none.
  std::vector<double> begin_step();
  /// What all ranks have told.
  void hear(const std::vector<double>& own_seconds);
  /// The step ends. On several ranks `values` gain, of this rank in this step, comm_seconds, exposed_comm_seconds and comm_bytes; and step_seconds_min,
  /// step_seconds_max and slowest_rank, of all ranks' own seconds in the step before, if there was one.
  void end_step(RunRecords::Values& values);

 private:
  using Clock = std::chrono::steady_clock;

  distributed::ProcessGroup& group_;
  std::function<void(const std::string&)> tell_;
  Clock::time_point begun_at_{};
  distributed::Communication before_{};  // the step
  double own_seconds_ = 0;               // of the last step
  std::vector<double> heard_{};          // of the step before this one; empty: there is none
  SlowRanks slow_;
};

}  // namespace reprise::train
