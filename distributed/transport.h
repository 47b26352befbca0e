// Transport: moves bytes between pairs of ranks. What the bytes mean, and who calls what, is the group's business.
#pragma once

#include <array>
#include <chrono>
#include <exception>
#include <optional>
#include <span>
#include <string>

#include "reprise/core/error.h"
#include "reprise/distributed/errors.h"

namespace reprise::distributed {

using Clock = std::chrono::steady_clock;  ///< of deadlines

/// 194 days, the most that the programs' --timeout takes. A deadline that is not much further ahead is still a time of the clock,
/// which counts nanoseconds.
inline constexpr std::chrono::seconds longest_time{1 << 24};

/// Error that names `option` and the limit where `time` is longer, or less than nothing.
inline void check_time(const std::string& option, std::chrono::milliseconds time) {
  check(time.count() >= 0 && time <= longest_time, option, " is ", time.count(),
        " ms; it is to be from 0 to ", std::chrono::milliseconds(longest_time).count(), " ms");
}

/// A message of fixed size: what a rank calls, for others to compare.
using Note = std::array<char, 256>;

/// Messages between the same two ranks with the same tag arrive in the order in which they were sent. Functions are called
/// from several threads. Each throws TransportError where the world has failed, or fails meanwhile.
class Transport {
 public:
  /// A message that goes out.
  struct Send {
    int to = 0;                  ///< the rank that gets it
    const void* data = nullptr;  ///< its first byte; the caller's until the exchange is over
    size_t bytes = 0;            ///< its size
  };
  /// A message that comes in.
  struct Receive {
    int from = 0;          ///< the rank that sends it
    void* data = nullptr;  ///< where its first byte goes
    size_t bytes = 0;      ///< its size, as the sender has it
  };

  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;

  /// The network interface of its connections, for who makes others beside them; "lo": ranks are on one machine.
  virtual std::string interface() const { return "lo"; }
  /// Whether the other ranks do not exist: calls are for code within a NoCompute.
  virtual bool is_imagined() const { return false; }
  virtual int rank() const = 0;   ///< this one, in [0, ranks())
  virtual int ranks() const = 0;  ///< of the world

  /// By how many seconds rank 0's clock is ahead of this rank's, as far as is known; 0 on one machine.
  virtual double clock_offset() const { return 0; }

  /// Starts to send a note, and returns at once.
  virtual void post(int to, uint64_t tag, const Note& note) = 0;
  /// The next note; throws `late` at the deadline.
  virtual Note take(int from, uint64_t tag, Clock::time_point deadline) = 0;

  /// Sends and receives all of these at once, and returns when all have arrived, here and there. Sizes have been compared:
  /// they agree. At most one message per rank and direction. Throws `late` at the deadline.
  virtual void exchange(uint64_t tag, std::span<const Send> sends, std::span<const Receive> receives,
                        Clock::time_point deadline) = 0;

  /// Why the world ended, if it has.
  virtual std::optional<Failure> failure() const = 0;
  /// What a thread of the transport has met on this rank, if that ended the world: a lack of memory. Calls throw it as it is.
  virtual std::exception_ptr own_error() const { return nullptr; }
  /// Ends the world by a failure that may only follow from another rank's; the one that all ranks are told, as far as is
  /// known soon.
  virtual Failure explain(const Failure& own) = 0;
  /// Ends the world: tells all other ranks, whose calls throw the same failure. The first failure counts.
  virtual void fail(const Failure& failure) = 0;
  /// This rank makes no more calls; others that wait for it fail, and hear what its `last` call was, which may be empty.
  virtual void leave(const std::string& last) = 0;
};

}  // namespace reprise::distributed
