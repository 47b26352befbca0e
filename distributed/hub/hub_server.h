// HubServer: on rank 0, where ranks meet, and which tells all of them why the world ended: the first cause, not what followed.
#pragma once

#include <map>
#include <thread>

#include "reprise/distributed/hub/frame.h"
#include "reprise/distributed/hub/silence.h"
#include "reprise/distributed/hub/socket.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// A rank whose connection ends without a goodbye has died, one that sends no heartbeats is silent. Reports of connections that failed wait for a better cause; all
/// others are the verdict at once. Nothing but sockets of the same user is listened to, and on loopback alone.
class HubServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::vector<int> ports{0};  ///< the first free one is taken; 0: any
    std::string job{};          ///< ranks of another one go on to the next port
    int ranks = 1;
    std::chrono::milliseconds timeout{};                            ///< for all ranks to come
    std::chrono::milliseconds peer_timeout = default_peer_timeout;  ///< for a rank's heartbeat; 0: none
  };
  explicit HubServer(const Options& options);
  ~HubServer();  ///< rank 0 has left, as all are told
  HubServer(const HubServer&) = delete;
  int port() const { return port_; }

 private:
  struct Connection {
    Socket socket;
    FrameReader reader{};
    Clock::time_point hello_by{};
    Silence silence;
    int rank = -1;  // until its hello
    int64_t pid = 0;
    std::vector<std::string> addresses{};
    bool said_goodbye = false;
  };

  void loop();
  int milliseconds_to_wait() const;
  void accept_one();
  bool read(Connection& connection);
  void handle(Connection& connection, const Frame& frame);
  void handle_hello(Connection& connection, const Frame& frame);
  void handle_end(const Connection& connection);
  void welcome_all();
  void refuse_all(const std::string& reason);
  void check_times();
  void check_joined(Clock::time_point now);
  void check_silence();
  void beat(Clock::time_point now);
  static std::string name_of(const Connection& connection);
  void report(const Failure& failure);
  void send_to_all(const Frame& frame);
  std::string who_came() const;

  Options options_;
  int port_ = 0;
  Socket listener_;
  Socket stop_reader_, stop_writer_;  // a pipe
  std::map<int, Connection>
      connections_;  // by their sockets: one that is read may change which others there are
  Clock::time_point join_by_, beat_at_{};
  int joined_ = 0;
  bool is_running_ = false, is_over_ = false;
  std::optional<Failure> pending_{};  // a report that a better one may follow
  Clock::time_point verdict_at_{};
  std::thread thread_;
};

}  // namespace reprise::distributed
