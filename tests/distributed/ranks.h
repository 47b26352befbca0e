// Runs one function on every rank of a world, over each transport that this build has.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "reprise/distributed/environment.h"
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/process_group.h"

namespace reprise::testing {

/// Threads; processes; threads with a GPU each, or one of the emulator's.
enum class Ranks { threads, gloo, nccl };
std::string name_of(Ranks kind);
/// Those that this build has, for tensors on the CPU.
std::vector<Ranks> kinds_of_ranks();
/// Those that this build and machine have, for tensors on the groups' devices.
std::vector<Ranks> kinds_with_devices();

/// What a rank found wrong; empty if nothing.
using RankBody = std::function<std::string(distributed::ProcessGroup& group)>;

/// What each rank found wrong. An exception is told as "KIND: message", with the FailureKind of a DistributedError and
/// "Error" for others; a process that did not end well by its exit status.
std::vector<std::string> run_ranks(Ranks kind, int ranks, const RankBody& body,
                                   const distributed::GroupOptions& options = {
                                       .timeout = std::chrono::seconds(60)});

/// The ranks of a new job on this machine.
std::vector<distributed::Environment> places_of(int ranks);

/// One process for each of some ranks, over Gloo, that goes on beside its parent. Each is a fork: start threads after them.
class StartedPlaces {
 public:
  /// Rank by rank, each with its own way of joining.
  StartedPlaces(const std::vector<distributed::Environment>& places, const RankBody& body,
                const distributed::GroupOptions& options, const std::vector<distributed::JoinOptions>& joins);
  StartedPlaces(const StartedPlaces&) = delete;
  /// Waits for all; what each found wrong.
  std::vector<std::string> outcomes();

 private:
  struct Child {
    pid_t pid = -1;
    int from = -1;  // the end of a pipe that it writes to
  };
  static Child start(const RankBody& body, const distributed::Environment& place,
                     const distributed::GroupOptions& options, distributed::JoinOptions join);
  static std::string outcome_of(const Child& child);

  std::vector<Child> children_;
};

/// Starts them and waits for their outcomes.
std::vector<std::string> run_places(const std::vector<distributed::Environment>& places, const RankBody& body,
                                    const distributed::GroupOptions& options = {},
                                    const distributed::JoinOptions& join = {
                                        .timeout = std::chrono::seconds(60)});
/// The same, where each rank joins in its own way.
std::vector<std::string> run_places(const std::vector<distributed::Environment>& places, const RankBody& body,
                                    const distributed::GroupOptions& options,
                                    const std::vector<distributed::JoinOptions>& joins);

/// Of a tensor's elements, wherever they are; "none" of no tensor.
std::string checksum(const Tensor& x);

/// Expects that no rank found anything wrong.
void expect_ranks_well(Ranks kind, int ranks, const RankBody& body);

}  // namespace reprise::testing
