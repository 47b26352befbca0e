// What ends a group of ranks, and the error that every rank then gets.
#pragma once

#include <cstdint>
#include <string>

#include "reprise/core/error.h"

namespace reprise::distributed {

/// What the rank at fault did, or what happened to it.
enum class FailureKind : uint8_t {
  died,       ///< its connections closed without a goodbye
  silent,     ///< its heartbeat stopped
  late,       ///< it did not make a call in time
  mismatch,   ///< ranks made different calls
  refused,    ///< it was not let in
  left,       ///< it left or aborted while others waited
  transport,  ///< a connection failed for another reason
};

std::string_view name_of(FailureKind kind);  ///< "died", ...

/// What went wrong on which rank, as one rank tells the others.
struct Failure {
  FailureKind kind = FailureKind::transport;  ///< what happened
  int rank = 0;         ///< of the first group, "world"; the rank at fault as far as is known
  std::string message;  ///< "rank 2 died: its connection closed without a goodbye"
  double heard = -1;    ///< seconds before, when the rank was last heard; -1: that is not known
};

/// A failure, met in a call. The first one ends all groups of a rank: later calls throw it again at once.
class DistributedError : public Error {
 public:
  /// The call that met it.
  struct Call {
    std::string operation;  ///< "all_reduce"
    int64_t sequence = 0;   ///< of the group's calls, from 1
    std::string group;      ///< "world"
    std::string
        tensor;  ///< the label of the call, such as "bucket 3 (h.2.mlp.c_fc.weight ...)"; may be empty
    std::string record{};  ///< the file with this rank's last calls; may be empty
    std::string form{};    ///< of the tensor: "f32, 24.7 MiB"; may be empty
    int by = -1;           ///< the rank that made the call; -1: it is not said
    int64_t step = -1;     ///< of the training run (ProcessGroup::set_step); -1: it is not said
    /// The last call that this rank knows of the one at fault: "all_reduce #7 of group world"; may be empty.
    std::string theirs{};
  };
  DistributedError(const Failure& failure, Call call, double seconds);  ///< `seconds` after the call began

  FailureKind kind() const { return failure_.kind; }                ///< what happened
  int rank() const { return failure_.rank; }                        ///< the one at fault, as a Failure has it
  const std::string& operation() const { return call_.operation; }  ///< of the call that met it: "all_reduce"
  int64_t sequence() const { return call_.sequence; }               ///< of that call
  const std::string& group() const { return call_.group; }          ///< of that call: "world"
  const std::string& tensor() const { return call_.tensor; }        ///< the label of that call; may be empty
  const Failure& failure() const { return failure_; }               ///< as all ranks were told

  /// What a program that cannot go on exits with: 5 where ranks are late, silent or mismatched, so that it is not known which
  /// one is at fault; 4 where another rank failed and this one was well.
  int exit_code() const;

 private:
  Failure failure_;
  Call call_;
};

// What follows is for transports.

/// Thrown by transports, which know no calls.
class TransportError : public Error {
 public:
  /// Its message is the failure's.
  explicit TransportError(Failure failure) : Error(failure.message), failure_(std::move(failure)) {}
  const Failure& failure() const { return failure_; }  ///< as given

 private:
  Failure failure_;
};

}  // namespace reprise::distributed
