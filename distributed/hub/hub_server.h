// HubServer: on rank 0, where ranks meet, and which tells all of them why the world ended: the first cause, not what followed.
#pragma once

#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "reprise/distributed/hub/frame_stream.h"
#include "reprise/distributed/hub/handshake.h"
#include "reprise/distributed/hub/silence.h"
#include "reprise/distributed/transport.h"

namespace reprise::distributed {

/// A rank whose connection ends without a goodbye has died, one that sends no heartbeats is silent. Reports of connections that failed wait for a better cause; all
/// others are the verdict at once. With a token, only who proves it is listened to; without one, only sockets of the same user
/// are, on loopback alone. What others send changes nothing.
class HubServer {
 public:
  struct Options {
    std::string address = "127.0.0.1";
    std::vector<int> ports{0};  ///< the first free one is taken; 0: any
    std::function<Socket(int& port)>
        listener{};     ///< a socket that listens already, and its port; none: one is made
    std::string job{};  ///< ranks of another one go on to the next port
    int ranks = 1;
    std::string token{};  ///< which all ranks prove; empty: none
    std::function<void(const std::string& line)>
        tell{};                           ///< of ranks without it, once per address; empty: no one
    std::chrono::milliseconds timeout{};  ///< for all ranks to come
    std::optional<std::chrono::milliseconds>
        peer_timeout{};  ///< for a rank's heartbeat; 0: none; nothing: GroupOptions's default
  };
  explicit HubServer(const Options& options);
  ~HubServer();  ///< rank 0 has left, as all are told
  HubServer(const HubServer&) = delete;
  int port() const { return port_; }
  /// The lack of memory that has ended it, if one has. Ranks are told, as far as there is memory for that.
  std::exception_ptr own_error() const;

 private:
  struct Connection {
    FrameStream stream{};
    std::string nonce{}, from{};  // `from`: its address
    Clock::time_point hello_by{};
    Silence silence;
    bool is_accepted = false;  // it has proved that it is of this job
    int rank = -1;             // until it is one of its ranks
    Hello hello{};
    std::vector<std::string> addresses{};
    bool said_goodbye = false;
  };

  void run();
  void loop();
  void end_by_own();
  int milliseconds_to_wait() const;
  void accept_one();
  bool read(Connection& connection);
  void handle(Connection& connection, const Frame& frame);
  void handle_hello(Connection& connection, const Frame& frame);
  void turn_away(Connection& connection, const Hello& hello);
  bool make_room();
  void handle_end(const Connection& connection);
  Frame welcome_of(int rank, const std::map<int, Connection*>& by_rank,
                   const std::vector<std::vector<std::string>>& proofs) const;
  void handle_places(Connection& connection, const Frame& frame);
  void call_all();
  void welcome_all();
  void refuse_all(const std::string& reason);
  void end_join(const Frame& last);
  void check_times();
  void check_joined(Clock::time_point now);
  void check_silence();
  void beat(Clock::time_point now);
  std::string name_of(const Connection& connection) const;
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
  std::set<std::string> told_of_;  // addresses
  std::set<std::string> hosts_;    // of its ranks, as they name them
  int joined_ = 0, placed_ = 0;
  bool is_complete_ = false, is_running_ = false, is_over_ = false;
  std::optional<Failure> pending_{};  // a report that a better one may follow
  Clock::time_point verdict_at_{};
  mutable std::mutex own_mutex_;
  std::exception_ptr own_{};
  std::thread thread_;
};

}  // namespace reprise::distributed
