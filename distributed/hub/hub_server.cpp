#include "reprise/distributed/hub/hub_server.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <random>

namespace reprise::distributed {
namespace {

constexpr std::chrono::seconds hello_time{5};
constexpr std::chrono::milliseconds report_time{200};
constexpr std::chrono::milliseconds short_wait{50}, long_wait{beat_time / 2};
constexpr size_t spare_connections = 16;

// 128 bits that only the two ranks of a pair get.
std::string new_proof() {
  std::random_device device;
  std::string proof;
  for (int i = 0; i < 4; ++i) {
    const uint32_t bits = device();
    proof.append(reinterpret_cast<const char*>(&bits), sizeof(bits));
  }
  return proof;
}

}  // namespace

HubServer::HubServer(const Options& options) : options_(options), join_by_(Clock::now() + options.timeout) {
  ignore_sigpipe();
  listener_ = listen_on(options_.address, options_.ports, port_);
  int ends[2];
  check(pipe2(ends, O_CLOEXEC) == 0, "hub: no pipe");
  stop_reader_ = Socket(ends[0]);
  stop_writer_ = Socket(ends[1]);
  thread_ = std::thread([this] { loop(); });
}

HubServer::~HubServer() {
  stop_writer_.close();
  thread_.join();
}

void HubServer::loop() {
  while (true) {
    std::vector<pollfd> polled{{stop_reader_.fd(), POLLIN, 0}};
    if (listener_) polled.push_back({listener_.fd(), POLLIN, 0});
    const size_t first = polled.size();
    for (const auto& [fd, c] : connections_) polled.push_back({fd, POLLIN, 0});
    poll(polled.data(), polled.size(), milliseconds_to_wait());
    if (polled[0].revents) break;
    for (size_t i = first; i < polled.size(); ++i) {
      auto found = connections_.find(polled[i].fd);
      if (!polled[i].revents || read(found->second)) continue;
      const Connection ended = std::move(found->second);
      connections_.erase(found);
      handle_end(ended);
    }
    if (listener_ && polled[1].revents) accept_one();
    check_times();
  }
  if (!is_over_) send_to_all({FrameKind::left, {"0"}});
}

int HubServer::milliseconds_to_wait() const {
  return int((pending_ || !is_running_ ? short_wait : long_wait).count());
}

void HubServer::accept_one() {
  Socket socket = accept_from(listener_);
  if (!socket || connections_.size() >= size_t(options_.ranks) + spare_connections || !is_same_user(socket))
    return;
  if (!send_all(socket, encode({FrameKind::greeting, {"reprise-hub-1", options_.job}}))) return;
  const int fd = socket.fd();
  connections_.emplace(fd, Connection{.socket = std::move(socket),
                                      .hello_by = Clock::now() + hello_time,
                                      .silence = Silence(options_.peer_timeout)});
}

// False once the connection has ended.
bool HubServer::read(Connection& connection) {
  const std::string bytes = receive_some(connection.socket);
  if (bytes.empty()) return false;
  connection.silence.heard();
  try {
    connection.reader.feed(bytes);
    while (auto frame = connection.reader.next()) handle(connection, *frame);
    return true;
  } catch (const Error&) { return false; }  // what speaks like that is none of ours
}

void HubServer::handle(Connection& connection, const Frame& frame) {
  check((connection.rank < 0) == (frame.kind == FrameKind::hello), "hub: a frame out of turn");
  if (frame.kind == FrameKind::hello) {
    handle_hello(connection, frame);
  } else if (frame.kind == FrameKind::failure) {
    report(failure_in(frame));
  } else if (frame.kind == FrameKind::goodbye) {
    connection.said_goodbye = true;
    send_to_all({FrameKind::left, {std::to_string(connection.rank)}});
  }
}

void HubServer::handle_hello(Connection& connection, const Frame& frame) {
  const int64_t ranks = number_in_frame(frame, 1, 1, 1 << 20);
  const int64_t rank = number_in_frame(frame, 0, 0, ranks - 1);
  const int64_t pid = number_in_frame(frame, 2, 0, INT64_MAX);
  if (ranks != options_.ranks)
    return refuse_all(
        detail::join("rank ", rank, " (pid ", pid, ") has ", ranks, " ranks, rank 0 has ", options_.ranks));
  for (const auto& [fd, other] : connections_)
    if (other.rank == rank)
      return refuse_all(detail::join("two processes are rank ", rank, ": pids ", other.pid, " and ", pid));
  check(frame.fields.size() == size_t(3 + ranks), "hub: a hello of ", frame.fields.size(), " fields");
  connection.rank = int(rank);
  connection.pid = pid;
  connection.addresses.assign(frame.fields.begin() + 3, frame.fields.end());
  if (++joined_ == options_.ranks) welcome_all();
}

void HubServer::handle_end(const Connection& connection) {
  if (connection.rank < 0 || connection.said_goodbye) return;
  const std::string who = name_of(connection);
  if (!is_running_) return refuse_all(who + " went before all ranks had come");
  report({FailureKind::died, connection.rank, who + " died: its connection closed without a goodbye"});
}

std::string HubServer::name_of(const Connection& connection) {
  return detail::join("rank ", connection.rank, " (pid ", connection.pid, ")");
}

void HubServer::welcome_all() {
  listener_.close();
  is_running_ = true;
  std::map<int, Connection*> by_rank;
  for (auto& [fd, c] : connections_)
    if (c.rank >= 0) by_rank[c.rank] = &c;
  const auto n = by_rank.size();
  std::vector<std::vector<std::string>> proofs(n);  // from, to
  for (auto& row : proofs)
    for (size_t to = 0; to < n; ++to) row.push_back(new_proof());
  for (const auto& [rank, connection] : by_rank) {
    const auto r = size_t(rank);
    Frame frame{FrameKind::welcome};
    for (const auto& [other, from] : by_rank) frame.fields.push_back(from->addresses[r]);
    for (size_t to = 0; to < n; ++to) frame.fields.push_back(proofs[r][to]);
    for (size_t from = 0; from < n; ++from) frame.fields.push_back(proofs[from][r]);
    send_all(connection->socket, encode(frame));
    connection->silence.heard();
  }
}

void HubServer::refuse_all(const std::string& reason) {
  send_to_all({FrameKind::refusal, {reason}});
  listener_.close();
  is_running_ = is_over_ = true;
}

void HubServer::check_times() {
  const auto now = Clock::now();
  beat(now);
  check_silence();
  if (pending_ && now >= verdict_at_ && !is_over_) {
    send_to_all(frame_of(*pending_));
    is_over_ = true;
  }
  std::erase_if(connections_, [&](const auto& entry) {
    return entry.second.rank < 0 && (is_running_ || now > entry.second.hello_by);
  });
  check_joined(now);
}

void HubServer::beat(Clock::time_point now) {
  if (now < beat_at_) return;
  beat_at_ = now + beat_time;
  for (const auto& [fd, c] : connections_)
    if (c.rank >= 0) send_if_room(c.socket, encode({FrameKind::beat}));
}

// From the welcome on; until then a rank sends nothing.
void HubServer::check_silence() {
  if (!is_running_ || is_over_) return;
  for (auto& [fd, c] : connections_) {
    if (c.rank < 0 || c.said_goodbye || !c.silence.is_too_long()) continue;
    return report(silent_failure(c.rank, name_of(c), c.silence));
  }
}

void HubServer::check_joined(Clock::time_point now) {
  if (is_running_ || now < join_by_) return;
  const double seconds = std::chrono::duration<double>(options_.timeout).count();
  refuse_all(detail::join("not all of ", options_.ranks, " ranks came within ", seconds,
                          " s; those that did: ", who_came()));
}

std::string HubServer::who_came() const {
  TextStream text;
  for (const auto& [fd, c] : connections_)
    if (c.rank >= 0) text << name_of(c) << ' ';
  return text.str();
}

void HubServer::report(const Failure& failure) {
  if (is_over_) return;
  if (failure.kind == FailureKind::transport) {
    if (pending_) return;
    pending_ = failure;
    verdict_at_ = Clock::now() + report_time;
    return;
  }
  send_to_all(frame_of(failure));
  is_over_ = true;
}

void HubServer::send_to_all(const Frame& frame) {
  for (const auto& [fd, c] : connections_) send_all(c.socket, encode(frame));
}

}  // namespace reprise::distributed
