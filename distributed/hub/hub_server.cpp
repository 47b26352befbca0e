#include "reprise/distributed/hub/hub_server.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <new>

#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/hub/host_name.h"
#include "reprise/distributed/hub/token.h"
#include "reprise/distributed/recorder.h"

namespace reprise::distributed {
namespace {

constexpr std::chrono::seconds hello_time{5};
constexpr std::chrono::milliseconds report_time{200};
constexpr std::chrono::milliseconds short_wait{50}, long_wait{beat_time / 2};
constexpr size_t spare_connections = 16, proof_size = 16;
constexpr size_t most_told_of = 16;  // addresses: a stranger may have many

// Since 1970, by this machine's clock.
int64_t microseconds_now() { return std::llround(1e6 * recorded_now()); }

}  // namespace

HubServer::HubServer(const Options& options) : options_(options), join_by_(Clock::now() + options.timeout) {
  ignore_sigpipe();
  check(!options_.token.empty() || is_loopback(options_.address), "hub: listening on ", options_.address,
        " needs a token");
  if (options_.listener) listener_ = options_.listener(port_);
  if (!listener_) listener_ = listen_on(options_.address, options_.ports, port_);
  int ends[2];
  check(pipe2(ends, O_CLOEXEC) == 0, "hub: no pipe");
  stop_reader_ = Socket(ends[0]);
  stop_writer_ = Socket(ends[1]);
  thread_ = std::thread([this] { run(); });
}

HubServer::~HubServer() {
  stop_writer_.close();
  thread_.join();
}

std::exception_ptr HubServer::own_error() const {
  std::lock_guard lock(own_mutex_);
  return own_;
}

void HubServer::run() {
  try {
    loop();
  } catch (const std::bad_alloc&) { end_by_own(); }
}

// Within a catch. Who does not hear it sees its connection end.
void HubServer::end_by_own() {
  {
    std::lock_guard lock(own_mutex_);
    own_ = std::current_exception();
  }
  constexpr const char* reason = "rank 0 failed in its hub: out of memory";
  try {
    if (!is_running_)
      refuse_all(reason);
    else if (!is_over_)
      send_to_all(frame_of({FailureKind::left, 0, reason}));
  } catch (const std::bad_alloc&) {}
  listener_.close();
  connections_.clear();
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
  if (!socket || !make_room() || (options_.token.empty() && !is_same_user(socket))) return;
  const int fd = socket.fd();
  const std::string from = peer_address(socket);
  Connection connection{.stream = FrameStream(std::move(socket)),
                        .nonce = options_.token.empty() ? "" : new_nonce(),
                        .from = from,
                        .hello_by = Clock::now() + hello_time,
                        .silence = Silence(peer_timeout_of(options_.peer_timeout, from))};
  if (connection.stream.send({FrameKind::greeting, {hub_protocol, options_.job, connection.nonce}}))
    connections_.emplace(fd, std::move(connection));
}

// Strangers that hold all places lose them to who comes later: a rank says who it is at once.
bool HubServer::make_room() {
  if (connections_.size() < size_t(options_.ranks) + spare_connections) return true;
  auto waits_longer = [](const auto& a, const auto& b) {
    if (a.second.is_accepted != b.second.is_accepted) return b.second.is_accepted;
    return a.second.hello_by < b.second.hello_by;
  };
  const auto longest = std::ranges::min_element(connections_, waits_longer);
  if (longest->second.is_accepted) return false;
  connections_.erase(longest);
  return true;
}

// False once the connection has ended.
bool HubServer::read(Connection& connection) {
  if (!connection.stream.receive()) return false;
  connection.silence.heard();
  try {
    while (auto frame = connection.stream.next()) handle(connection, *frame);
    return true;
  } catch (const Error& error) {  // what speaks like that is none of ours
    if (connection.rank < 0 || !is_running_) return false;
    report({FailureKind::transport, connection.rank, name_of(connection) + ": " + error.what()});
    connection.rank = -1;  // its end is told
    return false;
  }
}

void HubServer::handle(Connection& connection, const Frame& frame) {
  check((connection.rank < 0) == (frame.kind == FrameKind::hello), "hub: a frame out of turn");
  if (is_over_ && frame.kind != FrameKind::goodbye)
    return;  // ranks may be gone, and no other takes their place
  if (frame.kind == FrameKind::hello) {
    handle_hello(connection, frame);
  } else if (frame.kind == FrameKind::places) {
    handle_places(connection, frame);
  } else if (frame.kind == FrameKind::failure) {
    report(failure_in(frame));
  } else if (frame.kind == FrameKind::goodbye) {
    connection.said_goodbye = true;
    std::vector<std::string> fields{std::to_string(connection.rank)};
    if (!frame.fields.empty()) fields.push_back(frame.fields[0]);
    send_to_all({FrameKind::left, fields});
  }
}

void HubServer::handle_hello(Connection& connection, const Frame& frame) {
  const Hello hello = hello_in(frame);
  const Handshake handshake(options_.token, options_.job, connection.nonce);
  if (!handshake.admits(hello)) return turn_away(connection, hello);
  connection.stream.send({FrameKind::accepted, {handshake.hub_proof(hello)}});
  connection.stream.seal(handshake.key_to_rank(hello), handshake.key_to_hub(hello));
  connection.is_accepted = true;
  if (hello.ranks != options_.ranks)
    return refuse_all(detail::join("rank ", hello.rank, " (pid ", hello.pid, ") has ", hello.ranks,
                                   " ranks, rank 0 has ", options_.ranks));
  for (const auto& [fd, other] : connections_)
    if (other.rank == hello.rank)
      return refuse_all(detail::join("two processes are rank ", hello.rank, ": pids ", other.hello.pid,
                                     " and ", hello.pid));
  connection.rank = hello.rank;
  connection.hello = hello;
  hosts_.insert(hello.host);
  if (++joined_ == options_.ranks) call_all();
}

void HubServer::handle_places(Connection& connection, const Frame& frame) {
  check(is_complete_ && connection.addresses.empty() && frame.fields.size() == size_t(options_.ranks),
        "hub: places out of turn");
  connection.addresses = frame.fields;
  if (++placed_ == options_.ranks) welcome_all();
}

// Nothing it says is known to be true.
void HubServer::turn_away(Connection& connection, const Hello& hello) {
  connection.stream.send({FrameKind::refusal, {}});
  if (options_.tell && told_of_.size() < most_told_of && told_of_.insert(connection.from).second)
    options_.tell(detail::join(
        "join: refused a process at ", connection.from, " that says it is rank ", hello.rank, " (pid ",
        hello.pid, "): ",
        options_.token.empty() ? "it has a token, and rank 0 has none" : "it does not prove this job's token",
        "; REPRISE_JOB_TOKEN or --token-file must be the same on all ranks"));
  fail("hub: not of this job");
}

void HubServer::handle_end(const Connection& connection) {
  if (connection.rank < 0 || connection.said_goodbye) return;
  const std::string who = name_of(connection);
  if (!is_running_) return refuse_all(who + " went before all ranks had come");
  report({FailureKind::died, connection.rank, who + " died: its connection closed without a goodbye",
          connection.silence.seconds()});
}

// A machine is named where ranks have machines of several names, and then by that too.
std::string HubServer::name_of(const Connection& connection) const {
  const bool is_near = is_loopback(connection.from), is_named = hosts_.size() > 1;
  const std::string host = is_named ? shown_host(connection.hello.host) : "";
  std::string place = host.empty() ? "" : "host " + host;
  if (!is_near) place += (place.empty() ? "at " : " at ") + connection.from;
  return detail::join("rank ", connection.rank, " (", place, place.empty() ? "" : ", ", "pid ",
                      connection.hello.pid, ")");
}

void HubServer::call_all() {
  listener_.close();
  is_complete_ = true;
  std::string first;
  for (const auto& [fd, c] : connections_)
    if (c.rank == 0) first = name_of(c);
  send_to_all({FrameKind::call, {first}});
}

void HubServer::welcome_all() {
  is_running_ = true;
  std::map<int, Connection*> by_rank;
  for (auto& [fd, c] : connections_)
    if (c.rank >= 0) by_rank[c.rank] = &c;
  std::vector<std::vector<std::string>> proofs(by_rank.size());  // from, to
  if (options_.token.empty())
    for (auto& row : proofs)
      for (size_t to = 0; to < by_rank.size(); ++to) row.push_back(random_bytes(proof_size));
  for (const auto& [rank, connection] : by_rank) connection->stream.send(welcome_of(rank, by_rank, proofs));
}

// Ranks with a token make their proofs of it and of these nonces, and none is sent.
Frame HubServer::welcome_of(int rank, const std::map<int, Connection*>& by_rank,
                            const std::vector<std::vector<std::string>>& proofs) const {
  const auto r = size_t(rank);
  Frame frame{FrameKind::welcome};
  for (const auto& [other, from] : by_rank) frame.fields.push_back(from->addresses[r]);
  if (!options_.token.empty()) {
    for (const auto& [other, from] : by_rank) frame.fields.push_back(from->hello.nonce);
    return frame;
  }
  frame.fields.insert(frame.fields.end(), proofs[r].begin(), proofs[r].end());
  for (const auto& row : proofs) frame.fields.push_back(row[r]);
  return frame;
}

void HubServer::refuse_all(const std::string& reason) { end_join({FrameKind::refusal, {reason}}); }

void HubServer::end_join(const Frame& last) {
  send_to_all(last);
  listener_.close();
  is_complete_ = is_running_ = is_over_ = true;
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
    return entry.second.rank < 0 && (is_complete_ || now > entry.second.hello_by);
  });
  check_joined(now);
}

void HubServer::beat(Clock::time_point now) {
  if (now < beat_at_) return;
  beat_at_ = now + beat_time;
  for (auto& [fd, c] : connections_)
    if (c.rank >= 0) c.stream.send_if_room({FrameKind::beat, {std::to_string(microseconds_now())}});
}

// Of ranks that have come: those that have not may be slow to start.
void HubServer::check_silence() {
  if (is_over_) return;
  for (auto& [fd, c] : connections_) {
    if (c.rank < 0 || c.said_goodbye || !c.silence.is_too_long()) continue;
    const Failure failure = silent_failure(c.rank, name_of(c), c.silence);
    return is_running_ ? report(failure) : end_join(frame_of(failure));
  }
}

void HubServer::check_joined(Clock::time_point now) {
  if (is_running_ || now < join_by_) return;
  // A tenth more at most: a moment of the timeout that was asked for went by before the hub was there.
  const double seconds = double((options_.timeout.count() + 99) / 100) / 10;
  refuse_all(detail::join("not all of ", options_.ranks, " ranks came within ", seconds,
                          " s; those that did: ", who_came()));
}

std::string HubServer::who_came() const {
  TextStream text;
  for (const auto& [fd, c] : connections_)
    if (c.rank >= 0 && (!is_complete_ || !c.addresses.empty())) text << name_of(c) << ' ';
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
  for (auto& [fd, c] : connections_)
    if (c.is_accepted) c.stream.send(frame);
}

}  // namespace reprise::distributed
