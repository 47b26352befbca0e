// Computation: names what a rank computes, for the picture of time of its calls (distributed/flight/trace.h).
#pragma once

#include <string>
#include <utility>

#include "reprise/distributed/process_group.h"
#include "reprise/distributed/recorder.h"

namespace reprise::distributed {

/// From its begin to its end this rank computes what it names: the last 4,096 of them are in the record of the rank's calls. On a GPU
/// that is the time of the host.
class Computation {
 public:
  /// `name`: "backward of micro-batch 3".
  Computation(ProcessGroup& group, std::string name)
      : group_(group), name_(std::move(name)), begun_(recorded_now()) {}
  ~Computation() {
    try {
      group_.record_computation(name_, begun_, recorded_now());
    } catch (const std::exception&) {}  // the picture lacks it
  }
  Computation(const Computation&) = delete;

 private:
  ProcessGroup& group_;
  std::string name_;
  double begun_;
};

}  // namespace reprise::distributed
