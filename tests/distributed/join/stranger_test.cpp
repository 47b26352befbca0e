// Strangers at the ports of a job: who has not its token is not let in, ends nothing and changes no bit.
// labels: slow
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include "reprise/distributed/gloo/closed_listener.h"
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/hub/hub_client.h"
#include "reprise/distributed/hub/hub_server.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/io/folder.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/child.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using namespace std::chrono_literals;

const std::string kToken = "0123456789abcdef0123456789abcdef", kOther = "another token of the same length";

class Stranger : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_mac()) GTEST_SKIP() << "this build has no libcrypto";
  }
  HubServer::Options server_options(int ranks, const std::string& token) {
    return {.job = "job",
            .ranks = ranks,
            .token = token,
            .tell =
                [this](const std::string& line) {
                  std::lock_guard lock(mutex_);
                  told_.push_back(line);
                },
            .timeout = 30s};
  }
  std::vector<std::string> told() {
    std::lock_guard lock(mutex_);
    return told_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> told_;
};

HubClient::Options client_options(int port, int rank, int ranks, const std::string& token) {
  return {.place = [=] { return Place{.ports = {port}}; },
          .job = "job",
          .token = token,
          .rank = rank,
          .ranks = ranks,
          .addresses = [=](const std::string&) { return std::vector<std::string>(size_t(ranks), "x"); },
          .timeout = 30s};
}

// All ranks of a job, each by a thread, as they wait for one another.
std::vector<std::unique_ptr<HubClient>> join_all(int port, int ranks, const std::string& token) {
  std::vector<std::unique_ptr<HubClient>> clients(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      clients[size_t(rank)] = std::make_unique<HubClient>(client_options(port, rank, ranks, token), [] {});
    });
  for (std::thread& thread : threads) thread.join();
  return clients;
}

TEST_F(Stranger, RankWithTheWrongTokenOrNoneIsRefusedAndTheOthersJoin) {
  struct Case {
    std::string hub, rank, words;
  };
  for (const Case& c : std::vector<Case>{{kToken, kOther, "has another token than this rank"},
                                         {kToken, "", "has a token, and this rank has none"},
                                         {"", kOther, "has no token, and this rank has one"}}) {
    HubServer server(server_options(2, c.hub));
    const auto begin = Clock::now();
    const size_t told_before = told().size();
    try {
      HubClient stranger(client_options(server.port(), 1, 2, c.rank), [] {});
      ADD_FAILURE() << "it was let in";
    } catch (const TransportError& error) {
      EXPECT_EQ(error.failure().kind, FailureKind::refused);
      EXPECT_NE(std::string(error.what()).find(c.words), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("REPRISE_JOB_TOKEN or --token-file"), std::string::npos);
    }
    EXPECT_LT(Clock::now() - begin, 10s) << "it is 1 s, not the time for all to come";
    ASSERT_EQ(told().size(), told_before + 1) << "once, however often it was tried";
    EXPECT_NE(told().back().find("refused a process at 127.0.0.1 that says it is rank 1"), std::string::npos)
        << told().back();
    const auto clients = join_all(server.port(), 2, c.hub);
    EXPECT_FALSE(clients[0]->failure(100ms));
    for (const auto& client : clients) client->say_goodbye("");
  }
}

TEST_F(Stranger, ProofsOfPairsAreTheSameOnBothEndsAndNotSent) {
  HubServer server(server_options(3, kToken));
  const auto clients = join_all(server.port(), 3, kToken);
  for (size_t a = 0; a < 3; ++a)
    for (size_t b = 0; b < 3; ++b) {
      EXPECT_EQ(clients[a]->proofs_to_send()[b], clients[b]->proofs_to_expect()[a]);
      EXPECT_EQ(clients[a]->proofs_to_send()[b].size(), mac_size);
    }
  for (const auto& client : clients) client->say_goodbye("");
}

// A hub that has not the token: it says a rank is accepted, or sends back what the rank has proved itself by.
TEST_F(Stranger, HubThatDoesNotProveItselfIsNotBelieved) {
  for (const bool reflects : {false, true}) {
    int port = 0;
    const Socket listener = listen_on("127.0.0.1", {0}, port);
    std::atomic<bool> is_over{false};
    std::thread hub([&] {
      while (!is_over) {
        if (!wait_readable(listener, 20ms)) continue;
        FrameStream stream(accept_from(listener));
        stream.send({FrameKind::greeting, {hub_protocol, "job", std::string(16, 'n')}});
        std::optional<Frame> hello;
        while (!(hello = stream.next()) && stream.receive()) {}
        if (!hello) continue;
        const std::string proof = reflects ? hello_in(*hello).proof : std::string(mac_size, 'x');
        stream.send({FrameKind::accepted, {proof}});
        stream.send({FrameKind::failure, {"0", "0", "the world has ended", "-1"}});
        stream.receive();
      }
    });
    testing::expect_error([&] { HubClient client(client_options(port, 1, 2, kToken), [] {}); },
                          "join: rank 0 at 127.0.0.1:", "has another token than this rank");
    is_over = true;
    hub.join();
  }
}

// One of several kinds of strangers; it stays connected where it returns a socket.
Socket visit(int port, int kind) {
  Socket socket = connect_to("127.0.0.1", port);
  if (!socket || kind == 0) return socket;  // says nothing
  FrameReader reader;
  std::optional<Frame> greeting;
  while (!(greeting = reader.next()) && wait_readable(socket, 1s)) {
    const std::string bytes = receive_some(socket);
    if (bytes.empty()) return {};
    reader.feed(bytes);
  }
  if (!greeting) return {};
  const Hello plain{.rank = 1, .ranks = 3, .pid = 1};
  const std::string nonce = greeting->fields.at(2), heard(16, 'n');
  Hello other = Handshake(kOther, "job", nonce).proved(plain),
        old = Handshake(kToken, "job", heard).proved(plain);
  Hello sent_back = plain;
  sent_back.nonce = nonce;
  sent_back.proof = Handshake(kToken, "job", nonce).hub_proof(sent_back);
  const std::vector<std::string> says{
      "GET / HTTP/1.0\r\n\r\n",
      std::string(100000, '\xff'),
      encode(frame_of(other)).substr(0, 40),  // half a frame
      encode(frame_of(plain)),                // no proof
      encode(frame_of(other)),                // one by another token
      encode(frame_of(old)),                  // one that was heard on another connection
      encode(frame_of(sent_back)),            // the hub's
      encode(*greeting),
      encode({FrameKind::failure, {"0", "1", "the world has ended", "-1"}}),
  };
  send_all(socket, says[size_t(kind - 1) % says.size()]);
  return socket;
}

constexpr int kinds = 10;

std::vector<int> visits(int port, int count, std::vector<Socket>& stay) {
  std::vector<int> came(kinds, 0);
  for (int i = 0; i < count; ++i) {
    Socket socket = visit(port, i % kinds);
    came[size_t(i % kinds)] += bool(socket);
    if (socket && stay.size() < 200) stay.push_back(std::move(socket));
  }
  return came;
}

TEST_F(Stranger, ThousandOfThemChangeNothing) {
  HubServer server(server_options(3, kToken));
  std::vector<Socket> stay;
  std::unique_ptr<HubClient> first;
  std::thread thread(
      [&] { first = std::make_unique<HubClient>(client_options(server.port(), 0, 3, kToken), [] {}); });
  for (const int came : visits(server.port(), 1000, stay)) EXPECT_GT(came, 0);
  std::atomic<bool> is_over{false};
  std::thread more([&] {  // while the others join
    std::vector<Socket> hold;
    while (!is_over) visits(server.port(), 10, hold);
  });
  std::vector<std::unique_ptr<HubClient>> others(2);
  std::vector<std::thread> threads;
  for (int rank : {1, 2})
    threads.emplace_back([&, rank] {
      others[size_t(rank - 1)] =
          std::make_unique<HubClient>(client_options(server.port(), rank, 3, kToken), [] {});
    });
  for (std::thread& one : threads) one.join();
  thread.join();
  is_over = true;
  more.join();
  EXPECT_FALSE(first->failure(300ms));
  EXPECT_EQ(told().size(), 1u) << "one address";
  others[0]->report({FailureKind::late, 1, "it works"});
  EXPECT_EQ(first->failure(10s)->message, "it works");
}

// Bytes on their way are changed, left out and sent again by who sits between a rank and the hub.
class Relay {
 public:
  using Change = std::function<std::string(const std::string& bytes)>;
  Relay(int to_port, Change change) : change_(std::move(change)) {
    listener_ = listen_on("127.0.0.1", {0}, port_);
    thread_ = std::thread([this, to_port] { run(to_port); });
  }
  ~Relay() {
    is_over_ = true;
    thread_.join();
  }
  int port() const { return port_; }
  std::atomic<bool> is_on{false};

 private:
  void run(int to_port) {
    while (!is_over_ && !wait_readable(listener_, 10ms)) {}
    if (is_over_) return;
    const Socket rank = accept_from(listener_), hub = connect_to("127.0.0.1", to_port);
    while (!is_over_) {
      if (wait_readable(hub, 5ms)) {
        const std::string bytes = receive_some(hub);
        if (bytes.empty()) return;
        send_all(rank, bytes);
      }
      if (!wait_readable(rank, 5ms)) continue;
      const std::string bytes = receive_some(rank);
      if (bytes.empty()) return;
      send_all(hub, is_on ? change_(bytes) : bytes);
    }
  }
  Change change_;
  int port_ = 0;
  Socket listener_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

TEST_F(Stranger, BetweenARankAndTheHubCanOnlyEndTheJobByName) {
  const std::vector<Relay::Change> changes{
      [](std::string bytes) {
        bytes.back() ^= 1;
        return bytes;
      },
      [](const std::string& bytes) { return bytes + bytes; },
      [](const std::string&) {
        return encode({FrameKind::failure, {"0", "0", "I say rank 0 died", "-1"}});
      }};
  for (const Relay::Change& change : changes) {
    HubServer server(server_options(2, kToken));
    Relay relay(server.port(), change);
    std::unique_ptr<HubClient> through;
    std::thread thread(
        [&] { through = std::make_unique<HubClient>(client_options(relay.port(), 1, 2, kToken), [] {}); });
    const HubClient first(client_options(server.port(), 0, 2, kToken), [] {});
    thread.join();
    EXPECT_FALSE(first.failure(50ms));
    relay.is_on = true;  // the next heartbeat
    const auto failure = first.failure(10s);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->rank, 1);
    EXPECT_NE(failure->message.find("MAC"), std::string::npos) << failure->message;
  }
}

// The sockets of the children of this process, as /proc names them: other tests of this machine have theirs.
std::set<std::string> sockets_of_children() {
  std::set<std::string> sockets;
  for (const std::string& pid : io::names_in("/proc")) {
    std::ifstream stat("/proc/" + pid + "/stat");
    std::string number, name, state;
    pid_t parent = 0;
    if (!(stat >> number >> name >> state >> parent) || parent != getpid()) continue;
    const std::filesystem::path descriptors = "/proc/" + pid + "/fd";
    std::error_code gone;  // a descriptor that was closed meanwhile
    for (const std::string& fd : io::names_in(descriptors.string()))
      sockets.insert(std::filesystem::read_symlink(descriptors / fd, gone).string());
  }
  return sockets;
}

// The ports on which they listen.
std::set<int> listening_ports_of_children() {
  const std::set<std::string> own = sockets_of_children();
  std::ifstream table("/proc/net/tcp");
  std::set<int> ports;
  std::string line;
  while (std::getline(table, line)) {
    std::istringstream words(line);
    const std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
    if (columns.size() > 9 && columns[3] == "0A" && own.contains("socket:[" + columns[9] + "]"))
      ports.insert(std::stoi(columns[1].substr(columns[1].find(':') + 1), nullptr, 16));
  }
  return ports;
}

// What the test and the ranks, which are its children, tell one another.
struct Shared {
  std::atomic<int> joined{0};  // ranks that have added once
  std::atomic<bool> is_over{false};
};

std::string sums(ProcessGroup& group, Shared& shared) {
  Tensor x = Tensor::zeros({1000});
  x.fill_(1.0 / (3 + group.rank()));
  group.all_reduce(x).wait();
  TextStream text;
  text << std::hexfloat << x.to_vector<float>().back();
  ++shared.joined;
  for (bool goes_on = true; goes_on;) {  // until any rank has seen its end
    const Tensor word = Tensor::from(std::vector<uint8_t>{uint8_t(!shared.is_over)}, {1});
    group.all_reduce(word, ReduceOp::min).wait();
    goes_on = word.item() != 0;
  }
  return text.str();
}

testing::StartedPlaces start(const std::vector<Environment>& places, Shared& shared) {
  return {places,
          [&](ProcessGroup& group) { return sums(group, shared); },
          {},
          std::vector(places.size(), JoinOptions{.timeout = 60s, .token = kToken})};
}

TEST_F(Stranger, AtHubAndPairsChangesNoBit) {
  if (!has_gloo() || !testing::children_have_threads)
    GTEST_SKIP() << "needs Gloo, and children that start threads";
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  Shared& shared = *new (memory) Shared;
  shared.is_over = true;
  const std::vector<std::string> calm = start(testing::places_of(3), shared).outcomes();
  shared.is_over = false;
  shared.joined = 0;
  const auto places = testing::places_of(3);
  testing::StartedPlaces rank_0 = start({places[0]}, shared);
  std::vector<Socket> stay;
  while (!connect_to("127.0.0.1", places[0].port)) std::this_thread::sleep_for(10ms);
  visits(places[0].port, 500, stay);
  EXPECT_TRUE(listening_ports_of_children().contains(places[0].port)) << "the hub's, before all have joined";
  testing::StartedPlaces rest = start({places[1], places[2]}, shared);
  const auto end = Clock::now() + 60s;
  while (shared.joined < 3 && Clock::now() < end) std::this_thread::sleep_for(10ms);
  int reached = 0;
  for (const int port : listening_ports_of_children())
    for (int i = 0; i < 170; ++i) {
      const Socket socket = connect_to("127.0.0.1", port, i < 3 ? 50ms : 1ms);
      reached += bool(socket);
      if (socket) send_all(socket, std::string(8, char(i)) + std::string(100, '\xff'));
    }
  shared.is_over = true;
  std::vector<std::string> outcomes = rank_0.outcomes();
  for (const std::string& other : rest.outcomes()) outcomes.push_back(other);
  munmap(memory, sizeof(Shared));
  EXPECT_EQ(outcomes, calm);
  EXPECT_EQ(reached, 0) << "a pair's port is open once all have connected";
}

TEST(ClosedListener, TakesNoConnectionAndKeepsWhatItHas) {
  int port = 0, open_port = 0;
  const Socket listener = listen_on("127.0.0.1", {0}, port), open = listen_on("127.0.0.1", {0}, open_port);
  const Socket one = connect_to("127.0.0.1", port), other = accept_from(listener);
  close_listener(port);
  EXPECT_FALSE(connect_to("127.0.0.1", port, 200ms));
  EXPECT_TRUE(connect_to("127.0.0.1", open_port, 200ms));
  EXPECT_TRUE(send_all(one, "still there"));
  EXPECT_EQ(receive_some(other), "still there");
}

}  // namespace
}  // namespace reprise::distributed
