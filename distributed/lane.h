// Lane: the ranks of one group on a transport, under the group's own tags; compares calls and moves their bytes.
//
// Note [One order of calls for each two ranks]
// What a rank calls is told to both neighbours in the ring of its group's ranks, and a send or recv to the other rank of the
// pair. Between each two ranks these notes are counted, whatever groups the calls are of: the n-th note of one must belong to
// the n-th of the other. So a call of another group, or a send that meets a send, is found as any other difference is.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "reprise/core/stream.h"
#include "reprise/distributed/call.h"
#include "reprise/distributed/world.h"

namespace reprise::distributed {

class NcclChannel;

/// The ranks here are the group's: 0 ... size() - 1.
class Lane {
 public:
  /// Where a call stands in the order of calls between this rank and another one of the world.
  struct Place {
    int rank;
    int64_t number;
  };

  /// `members`: the group's ranks in the world. `key` tells groups apart. Alone in its group a lane needs no transport.
  Lane(std::shared_ptr<World> world, std::vector<int> members, uint64_t key,
       std::chrono::milliseconds timeout);

  /// `host` for memory of a CUDA device, which moves in the order of `stream`, by `channel`; that outlives it, and is null
  /// for a rank alone.
  Lane(const Lane& host, const Stream& stream, NcclChannel* channel);

  int rank() const { return rank_; }
  int size() const { return int(members_.size()); }
  const Stream& stream() const { return stream_; }  ///< of the device whose memory it moves
  int world_rank(int rank) const { return members_[size_t(rank)]; }

  /// Tells both neighbours in the ring of ranks what this rank calls.
  std::vector<Place> announce(const Call& call) { return announce(call, neighbours()); }
  /// Tells one rank.
  std::vector<Place> announce_to(int to, const Call& call) { return announce(call, {to}); }
  /// Waits for the calls that stand in these places; throws `late`, or `mismatch` where one is another one.
  void compare(const Call& call, const std::vector<Place>& places);

  /// The rank of the world whose call `compare` waits for now.
  std::optional<int> awaited() const;
  /// In the ring of ranks.
  std::vector<int> neighbours() const;

  // Memory of the CPU has moved when these return; that of a device is moved on the stream.

  /// Moves what one call of the whole group sends and receives.
  void exchange(std::span<const Transport::Send> sends, std::span<const Transport::Receive> receives);
  /// Moves bytes between one pair of ranks.
  void send(int to, const void* data, size_t bytes);
  void receive(int from, void* data, size_t bytes);

  /// Whether what moves its memory has calls of the whole group, which follow: NCCL.
  bool has_collectives() const { return channel_ != nullptr; }
  /// `data`, `count` numbers, becomes the sum over all ranks of the group, in an order that is not ours.
  void sum(DType dtype, int64_t count, void* data);
  /// `out` becomes this rank's part of the sum of `in`, which has `count` numbers for each rank; it may be that part of `in`.
  void scatter_sum(DType dtype, int64_t count, const void* in, void* out);
  /// `bytes` of each rank, in their order; `in` may be its part of `out`.
  void all_gather(const void* in, void* out, size_t bytes);
  void broadcast(void* data, size_t bytes, int root);

 private:
  enum Tag : uint64_t { calls, payload, pair_payload };
  static uint64_t tag(Tag kind, uint64_t number) { return number << 2 | kind; }
  std::vector<Place> announce(const Call& call, const std::vector<int>& ranks);
  Note take(const Place& place, Clock::time_point deadline);
  Clock::time_point end_of_payload() const;
  void move(Tag kind, std::span<const Transport::Send> sends, std::span<const Transport::Receive> receives);

  std::shared_ptr<World> world_;
  std::vector<int> members_;
  int rank_;
  uint64_t key_;
  std::chrono::milliseconds timeout_;
  Stream stream_{Device::cpu()};
  NcclChannel* channel_ = nullptr;
  mutable std::mutex mutex_;
  std::optional<int> awaited_;
};

}  // namespace reprise::distributed
