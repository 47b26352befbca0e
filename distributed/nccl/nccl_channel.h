// NcclChannel: a communicator of NCCL, which moves bytes between the GPUs of a group's ranks. https://docs.nvidia.com/deeplearning/nccl
//
// Note [NCCL never blocks]
// A rank may die at any time, and NCCL then waits for ever, on the host or in a kernel that spins. So communicators are
// non-blocking: each call is polled to a deadline, and while it is, this rank listens to why the world ended. ncclCommAbort
// then ends the communicator's kernels. NCCL's guide asks that no two threads are inside it while one aborts: one mutex of the
// process is around all calls, none of which waits.
#pragma once

#include <memory>

#include "reprise/core/cuda/event.h"
#include "reprise/core/cuda/library_memory.h"
#include "reprise/core/dtype.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// Whether this build can use NCCL (or the emulator's double of it).
bool has_nccl();

/// What one rank gets from NCCL and all ranks of a communicator give it, as bytes. Error if there is no NCCL, or one before
/// 2.19. `interface`: the network interface that NCCL is to use, unless the user says another one by NCCL_SOCKET_IFNAME; the
/// first one of a process counts.
std::string new_nccl_id(const std::string& interface);

/// Bytes that the address and the size of a window are multiples of.
inline constexpr size_t window_alignment = 4096;

/// Memory that NCCL hands out: what windows lie in. Once a channel has windows.
const cuda::LibraryMemory& nccl_memory();

class NcclChannel {
 public:
  struct Options {
    std::shared_ptr<Transport> world{};  ///< which tells why the world ended, and has the interface
    Device device{};
    int rank = 0, ranks = 1;  ///< of the group
    std::string id{};         ///< of new_nccl_id, the same on all ranks
  };
  /// Waits for all ranks of the group; TransportError where they do not come by the deadline, or the world ends.
  NcclChannel(const Options& options, Clock::time_point deadline);
  ~NcclChannel();  ///< aborts what is still in progress
  NcclChannel(const NcclChannel&) = delete;

  /// Puts these messages on `stream`, which is the device's, and returns once they are there. Memory is the device's, ranks
  /// are the group's. All ranks of a pair make their calls in the same order. TransportError.
  void exchange(const Stream& stream, std::span<const Transport::Send> sends,
                std::span<const Transport::Receive> receives, Clock::time_point deadline);

  /// Puts on `stream` that `data`, `count` numbers of the device, becomes the sum over all ranks, which NCCL adds in an order of
  /// its own; as `exchange`. All ranks have the same bits. TransportError.
  void sum(const Stream& stream, DType dtype, int64_t count, void* data, Clock::time_point deadline);
  /// The same, but of `in`, which has `count` numbers for each rank, a rank gets its own part of the sum, into `out`, which is
  /// apart from `in` or that part of it.
  void scatter_sum(const Stream& stream, DType dtype, int64_t count, const void* in, void* out,
                   Clock::time_point deadline);
  /// `bytes` of each rank, in their order, into `out`; `in` is apart from it or its part of it. As `exchange`.
  void all_gather(const Stream& stream, const void* in, void* out, size_t bytes, Clock::time_point deadline);
  /// `data` becomes that of rank `root`. As `exchange`.
  void broadcast(const Stream& stream, void* data, size_t bytes, int root, Clock::time_point deadline);

  // A window is memory that NCCL knows on all ranks: its calls then copy less. All ranks make their windows in one order, and
  // calls on one use the same part of it on all. It ends with the channel at the latest.

  /// Whether NCCL has windows: it is 2.27 or newer.
  bool has_windows() const;
  /// Begins to make a window of `bytes` of nccl_memory; aligned both. False if NCCL refuses, as where GPUs do not
  /// reach each other's memory. TransportError.
  bool begin_window(void* data, size_t bytes);
  /// Waits for all ranks to have begun it. False if NCCL made none all the same. As `exchange`.
  bool finish_window(void* data, Clock::time_point deadline);
  /// On this rank, where no call uses it any more; does nothing if it is no window. As `exchange`.
  void end_window(void* data, Clock::time_point deadline);

  /// Until the stream has passed `done`; TransportError where it has not by the deadline, or the world ends: then the
  /// communicator is ended, and so is its work on streams.
  void wait(const cuda::Event& done, Clock::time_point deadline);

 private:
  class Communicator;
  std::unique_ptr<Communicator> communicator_;
};

}  // namespace reprise::distributed
