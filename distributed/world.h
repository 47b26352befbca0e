// World: what all groups of one rank share: the transport, the order and the record of its calls, and the first failure, which
// ends all of them.
#pragma once

#include <atomic>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "reprise/distributed/communication.h"
#include "reprise/distributed/recorder.h"
#include "reprise/distributed/transport.h"
#include "reprise/distributed/wait_notices.h"

namespace reprise::distributed {

class World {
 public:
  /// Without a transport: one rank alone. The rest is what GroupOptions say.
  World(std::shared_ptr<Transport> transport, std::chrono::milliseconds notice_after, WaitNotices::Tell tell);
  ~World();  ///< leaves
  World(const World&) = delete;

  const std::shared_ptr<Transport>& transport() const { return transport_; }
  int rank() const { return transport_ ? transport_->rank() : 0; }
  int ranks() const { return transport_ ? transport_->ranks() : 1; }
  Recorder& recorder() { return recorder_; }
  /// Handles of calls, which may outlive the world, keep it.
  const std::shared_ptr<CommunicationMeter>& meter() const { return meter_; }
  WaitNotices* notices() { return notices_ ? &*notices_ : nullptr; }  ///< none for one rank alone

  /// Of the training run, for errors; -1: none is known.
  std::atomic<int64_t> step{-1};
  /// A call that this rank makes: of the last one the others hear when it leaves.
  void note_call(const std::string& operation, int64_t sequence, const std::string& group);
  /// A call that another rank has told this one of, the `number`-th: of the newest one the error says where that rank is at fault.
  void note_call_of(int rank, int64_t number, const Note& note);
  /// The number of the next call that is told to a rank, from 1.
  int64_t next_call_with(int rank);
  /// Set while a thread makes a call of one of the groups.
  std::atomic_flag& busy() { return busy_; }

  /// Throws what ended this world, if something did: a DistributedError, or what this rank or its transport met itself. Error if it has left.
  void check_alive(const std::string& operation) const;
  /// Ends the world, unless it has ended, and writes the record of its calls.
  void fail(const Failure& failure, DistributedError::Call call, double seconds);
  /// The same, within a catch: calls of this rank throw what is caught as it is, and the others are told that this rank
  /// failed in `operation`, and the `reason`.
  void fail_by_own(const std::string& operation, const char* reason);
  /// What has ended the world on another rank, as far as is known.
  std::optional<Failure> failure_of_another() const;
  void leave();

 private:
  struct ToldCall {
    int64_t number = 0;
    Note note{};
  };

  bool has_ended() const;  // under the lock
  std::string last_call_of(const Failure& failure) const;

  std::shared_ptr<Transport> transport_;
  Recorder recorder_;
  std::shared_ptr<CommunicationMeter> meter_ = std::make_shared<CommunicationMeter>();
  std::optional<WaitNotices> notices_;
  std::atomic_flag busy_{};
  mutable std::mutex mutex_;
  std::map<int, int64_t> calls_with_;
  std::map<int, ToldCall> told_by_;  // by rank
  DistributedError::Call last_call_;
  std::optional<DistributedError> failure_;
  std::exception_ptr own_;  // what this rank met itself, in the place of a failure
  bool left_ = false;
};

}  // namespace reprise::distributed
