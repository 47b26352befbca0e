// HubClient: a rank's connection to the hub: it joins by it, and hears by it why the world ended.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "reprise/distributed/hub/clock_offset.h"
#include "reprise/distributed/hub/frame_stream.h"
#include "reprise/distributed/hub/handshake.h"
#include "reprise/distributed/hub/rendezvous.h"
#include "reprise/distributed/hub/silence.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

class HubClient {
 public:
  struct Options {
    /// Where the hub may be; asked before each try, since a file may say it only later.
    std::function<std::optional<Place>()> place{};
    std::string job{};
    std::string
        token{};  ///< which hub and rank prove to each other; empty: none, and sockets of the same user alone
    int rank = 0, ranks = 1;
    /// Where each rank finds this one, whose end of the connection to the hub has the address `own`; asked once all have come.
    std::function<std::vector<std::string>(const std::string& own)> addresses{};
    std::chrono::milliseconds timeout{};  ///< for the hub and all ranks to come
    std::optional<std::chrono::milliseconds>
        peer_timeout{};  ///< for a heartbeat of the hub; 0: none; nothing: GroupOptions's default
  };
  /// Waits until all ranks have come, and no longer than the timeout and 1 s. Throws TransportError: `late` if they do not, `silent`
  /// where the hub stops, `refused` with its reason, or within a second or so where this rank's token is not the hub's; or what the
  /// hub says has ended the world meanwhile. From then on a thread sends heartbeats and listens; it calls `on_failure` once, when the world has ended.
  HubClient(const Options& options, std::function<void()> on_failure);
  ~HubClient();
  HubClient(const HubClient&) = delete;

  /// Where this rank finds each one; what it proves to each that it is itself by; what each proves so.
  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::vector<std::string>& proofs_to_send() const { return sent_; }
  const std::vector<std::string>& proofs_to_expect() const { return expected_; }

  void report(const Failure& failure);
  void say_goodbye(const std::string& last);  ///< after the call that is named, if there was one
  /// Why the world ended, if it has by the end of `time`.
  std::optional<Failure> failure(std::chrono::milliseconds time = {}) const;
  bool has_left(int rank) const { return last_call_of(rank).has_value(); }
  /// With which call, if it has left; empty where it has made none.
  std::optional<std::string> last_call_of(int rank) const;
  /// By how many seconds the clock of rank 0's machine is ahead of this one's, as far as its heartbeats tell.
  double clock_offset() const;
  /// The lack of memory by which its thread has ended the world, if one has.
  std::exception_ptr own_error() const;

 private:
  void join(const Options& options);
  std::optional<Frame> ask(const Options& options, const std::string& address, int port,
                           Clock::time_point deadline);
  std::optional<std::string> greeting(const std::string& job, Clock::time_point deadline);
  std::optional<bool> accepts(const Handshake& handshake, Clock::time_point deadline);
  void take_welcome(const Options& options, const Frame& frame);
  std::optional<Frame> receive(Clock::time_point deadline);
  std::optional<Frame> answer(Clock::time_point deadline);
  void take_call(const Frame& frame);
  std::vector<std::string> make_addresses(const Options& options);
  bool listen(Silence& silence);
  void run();
  void loop();
  void end_by_own();
  void beat();
  void handle(const Frame& frame);
  void end(const Failure& failure);

  int rank_ = 0, ranks_ = 1;
  std::chrono::milliseconds peer_timeout_{};
  FrameStream stream_;
  Hello hello_;
  std::string first_ = "rank 0";  // as it is named in messages, once the hub has said more of it
  std::string refusal_;           // why the last hub that did did not take this rank
  std::vector<std::string> addresses_, sent_, expected_;
  std::function<void()> on_failure_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Failure> failure_;
  std::exception_ptr own_;
  std::map<int, std::string> left_;  // and their last calls
  ClockOffset clock_;
  std::mutex send_mutex_;
  std::atomic<bool> is_closing_{false};
  Clock::time_point beat_at_{};
  std::thread thread_;
};

}  // namespace reprise::distributed
