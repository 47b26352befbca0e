// HubClient: a rank's connection to the hub: it joins by it, and hears by it why the world ended.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "reprise/distributed/hub/frame.h"
#include "reprise/distributed/hub/silence.h"
#include "reprise/distributed/hub/socket.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

class HubClient {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::vector<int> ports{};  ///< the hub listens on one of them
    std::string job{};
    int rank = 0, ranks = 1;
    std::vector<std::string> addresses{};                           ///< where each rank finds this one
    std::chrono::milliseconds timeout{};                            ///< for the hub and all ranks to come
    std::chrono::milliseconds peer_timeout = default_peer_timeout;  ///< for a heartbeat of the hub; 0: none
  };
  /// Waits until all ranks have come. Throws TransportError: `late` if they do not, `silent` where the hub stops, `refused`
  /// with its reason. From then on a thread sends heartbeats and listens; it calls `on_failure` once, when the world has ended.
  HubClient(const Options& options, std::function<void()> on_failure);
  ~HubClient();
  HubClient(const HubClient&) = delete;

  /// Where this rank finds each one; what it proves to each that it is itself by; what each proves so.
  const std::vector<std::string>& addresses() const { return addresses_; }
  const std::vector<std::string>& proofs_to_send() const { return sent_; }
  const std::vector<std::string>& proofs_to_expect() const { return expected_; }

  void report(const Failure& failure);
  void say_goodbye();
  /// Why the world ended, if it has by the end of `time`.
  std::optional<Failure> failure(std::chrono::milliseconds time = {}) const;
  bool has_left(int rank) const;

 private:
  void join(const Options& options);
  std::optional<Frame> receive(Clock::time_point deadline);
  std::optional<Frame> answer(Clock::time_point deadline);
  bool wait_for_bytes(Silence& silence);
  bool is_our_hub(const std::string& job);
  void loop();
  void beat();
  void handle(const Frame& frame);
  void end(const Failure& failure);

  int ranks_ = 1;
  std::chrono::milliseconds peer_timeout_;
  Socket socket_;
  FrameReader reader_;
  std::vector<std::string> addresses_, sent_, expected_;
  std::function<void()> on_failure_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::optional<Failure> failure_;
  std::set<int> left_;
  std::mutex send_mutex_;
  std::atomic<bool> is_closing_{false};
  Clock::time_point beat_at_{};
  std::thread thread_;
};

}  // namespace reprise::distributed
