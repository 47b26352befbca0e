// Lane: the ranks of one group on a transport, under the group's own tags; compares calls and moves their bytes.
#pragma once

#include <memory>
#include <vector>

#include "reprise/distributed/call.h"

namespace reprise::distributed {

/// The ranks here are the group's: 0 ... size() - 1.
class Lane {
 public:
  /// `members`: the group's ranks in the world. `key` tells groups apart. Alone in its group a lane needs no transport.
  Lane(std::shared_ptr<Transport> transport, std::vector<int> members, int rank, uint64_t key,
       std::chrono::milliseconds timeout);

  int rank() const { return rank_; }
  int size() const { return int(members_.size()); }
  int world_rank(int rank) const { return members_[size_t(rank)]; }

  /// Tells both neighbours in the ring of ranks what this rank calls.
  void announce(const Call& call);
  /// Waits until both neighbours have made their call of this number; throws `late`, or `mismatch` where it is another one.
  void compare(const Call& call, const std::string& group);
  /// The same for one direction of a pair: the sender announces, the receiver compares.
  void announce_to(int to, const Call& call);
  void compare_from(int from, const Call& call, const std::string& group);

  /// Of one call of the whole group.
  void exchange(std::span<const Transport::Send> sends, std::span<const Transport::Receive> receives);
  /// Of one pair.
  void send(int to, const void* data, size_t bytes);
  void receive(int from, void* data, size_t bytes);

 private:
  enum Tag : uint64_t { calls, payload, pair_calls, pair_payload };
  uint64_t tag(Tag kind) const { return key_ << 2 | kind; }
  std::vector<int> neighbours() const;
  void move(Tag kind, std::span<const Transport::Send> sends, std::span<const Transport::Receive> receives);

  std::shared_ptr<Transport> transport_;
  std::vector<int> members_;
  int rank_;
  uint64_t key_;
  std::chrono::milliseconds timeout_;
};

}  // namespace reprise::distributed
