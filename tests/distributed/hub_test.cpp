// The hub: who is let in, what strangers get, and which cause of several is told.
#include "reprise/distributed/hub/hub_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/hub/hub_client.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::error_of;
using testing::expect_error;
using namespace std::chrono_literals;

struct Join {
  HubClient::Options options;
  std::unique_ptr<HubClient> client{};
  std::string error{};
  std::thread thread{};
};

HubServer::Options server_options(int ranks) { return {.job = "job", .ranks = ranks, .timeout = 20s}; }

HubClient::Options client_options(const HubServer& server, int rank, int ranks) {
  std::vector<std::string> addresses;
  for (int to = 0; to < ranks; ++to)
    addresses.push_back("from " + std::to_string(rank) + " to " + std::to_string(to));
  const int port = server.port();
  return {.place = [=] { return Place{.ports = {port}}; },
          .job = "job",
          .rank = rank,
          .ranks = ranks,
          .addresses = [=](const std::string&) { return addresses; },
          .timeout = 20s};
}

// Joins by a thread each, as all wait for one another.
void join_all(std::vector<Join>& joins) {
  for (Join& join : joins)
    join.thread = std::thread([&join] {
      try {
        join.client = std::make_unique<HubClient>(join.options, [] {});
      } catch (const Error& error) { join.error = error.what(); }
    });
  for (Join& join : joins) join.thread.join();
}

// What a rank is told within 10 s.
std::string told(const Join& join) {
  const auto failure = join.client->failure(10s);
  return failure ? failure->message : "nothing";
}

std::vector<Join> joined(const HubServer& server, int ranks) {
  std::vector<Join> joins;
  for (int rank = 0; rank < ranks; ++rank) joins.push_back({client_options(server, rank, ranks)});
  join_all(joins);
  for (const Join& join : joins) EXPECT_EQ(join.error, "");
  return joins;
}

TEST(Hub, GivesEachRankItsAddressesAndProofs) {
  HubServer server(server_options(3));
  const auto joins = joined(server, 3);
  for (size_t a = 0; a < 3; ++a)
    for (size_t b = 0; b < 3; ++b) {
      const HubClient &one = *joins[a].client, &other = *joins[b].client;
      EXPECT_EQ(one.addresses()[b], "from " + std::to_string(b) + " to " + std::to_string(a));
      EXPECT_EQ(one.proofs_to_send()[b], other.proofs_to_expect()[a]);
      EXPECT_EQ(one.proofs_to_send()[b].size(), 16u);
      EXPECT_NE(one.proofs_to_send()[b], one.proofs_to_send()[(b + 1) % 3]);
    }
  for (const Join& join : joins) join.client->say_goodbye("all_reduce #7 of group world");
}

TEST(Hub, FirstCauseIsTheVerdict) {
  HubServer server(server_options(3));
  auto joins = joined(server, 3);
  joins[1].client->report({FailureKind::transport, 0, "a connection failed"});
  joins[0].client->report({FailureKind::transport, 1, "another one"});
  std::this_thread::sleep_for(20ms);
  joins[2].client.reset();  // without a goodbye
  for (size_t r : {0, 1}) {
    const auto failure = joins[r].client->failure(10s);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind, FailureKind::died);
    EXPECT_EQ(failure->rank, 2);
    EXPECT_EQ(failure->message,
              "rank 2 (pid " + std::to_string(getpid()) + ") died: its connection closed without a goodbye");
    EXPECT_GE(failure->heard, 0);
    EXPECT_LT(failure->heard, 5) << "it has sent heartbeats";
  }
}

TEST(Hub, OfTwoThatDieAtOnceAllAreToldTheSame) {
  HubServer server(server_options(4));
  auto joins = joined(server, 4);
  std::thread other([&] { joins[3].client.reset(); });
  joins[2].client.reset();
  other.join();
  const std::string verdict = told(joins[0]);
  EXPECT_EQ(told(joins[1]), verdict);
  EXPECT_TRUE(verdict.starts_with("rank 2 (pid ") || verdict.starts_with("rank 3 (pid ")) << verdict;
  EXPECT_NE(verdict.find(" died: its connection closed without a goodbye"), std::string::npos) << verdict;
}

TEST(Hub, FailedConnectionIsTheVerdictWithoutABetterOne) {
  HubServer server(server_options(2));
  auto joins = joined(server, 2);
  joins[1].client->report({FailureKind::transport, 0, "a connection failed"});
  for (Join& join : joins) EXPECT_EQ(told(join), "a connection failed");
}

TEST(Hub, GoodbyesAreNoDeaths) {
  HubServer server(server_options(3));
  auto joins = joined(server, 3);
  joins[2].client->say_goodbye("all_reduce #7 of group world");
  joins[2].client.reset();
  for (int tries = 0; tries < 1000 && !joins[1].client->has_left(2); ++tries)
    std::this_thread::sleep_for(5ms);
  EXPECT_EQ(joins[1].client->last_call_of(2), "all_reduce #7 of group world");
  EXPECT_FALSE(joins[1].client->last_call_of(0));
  EXPECT_FALSE(joins[1].client->failure(300ms));
}

TEST(Hub, EndOfTheHubIsThatOfRank0) {
  auto server = std::make_unique<HubServer>(server_options(2));
  auto joins = joined(*server, 2);
  server.reset();
  for (int tries = 0; tries < 1000 && !joins[1].client->has_left(0); ++tries)
    std::this_thread::sleep_for(5ms);
  EXPECT_TRUE(joins[1].client->has_left(0));
  EXPECT_FALSE(joins[1].client->failure(100ms)) << "it left, it did not die";
}

TEST(Hub, RefusesTwoOfOneRankAndAnotherCount) {
  for (const auto& [rank, ranks, words] : std::vector<std::tuple<int, int, std::string>>{
           {0, 2, "two processes are rank 0: pids "}, {1, 3, "has 3 ranks, rank 0 has 2"}}) {
    HubServer server(server_options(2));
    std::vector<Join> joins;
    joins.push_back({client_options(server, 0, 2)});
    joins.push_back({client_options(server, rank, ranks)});
    join_all(joins);
    bool is_told = false;
    for (const Join& join : joins) is_told |= join.error.find(words) != std::string::npos;
    EXPECT_TRUE(is_told) << joins[0].error << " | " << joins[1].error;
  }
}

TEST(Hub, SaysWhoCameWhereNotAllDo) {
  HubServer server({.job = "job", .ranks = 3, .timeout = 1s});
  auto options = client_options(server, 1, 3);
  expect_error([&] { HubClient client(options, [] {}); },
               "not all of 3 ranks came within 1 s; those that did: rank 1 (pid ");
}

TEST(Hub, SaysItsTimeInTenthsOfASecond) {
  HubServer server({.job = "job", .ranks = 2, .timeout = 950ms});
  expect_error([&] { HubClient client(client_options(server, 1, 2), [] {}); }, "2 ranks came within 1 s; ");
}

TEST(Hub, RanksOfAnotherJobDoNotJoin) {
  HubServer server({.job = "job#2", .ranks = 2, .timeout = 20s});
  auto options = client_options(server, 1, 2);
  for (const char* other :
       {"job", "job.1", "jobs#1", "job#", "job#one", "#1", "job#3"}) {  // 3: ours may come yet
    options.job = other;
    options.timeout = 100ms;
    expect_error([&] { HubClient client(options, [] {}); }, "rank 0 was not found, at none of:");
  }
}

// What an earlier attempt has left does not wait for its own rank 0 until the timeout.
TEST(Hub, RanksOfAnEarlierAttemptAreRefused) {
  HubServer server({.job = "job#2", .ranks = 2, .timeout = 20s});
  auto options = client_options(server, 1, 2);
  options.job = "job#1";
  options.timeout = 60s;
  try {
    HubClient client(options, [] {});
    FAIL() << "it joined";
  } catch (const TransportError& error) {
    EXPECT_EQ(error.failure().kind, FailureKind::refused);
    EXPECT_NE(error.failure().message.find("rank 0 is of attempt 2, this rank of attempt 1"),
              std::string::npos)
        << error.failure().message;
  }
}

TEST(Hub, TriesTheNextPortWhereAnotherServerListens) {
  int silent_port = 0, free_port = 0;
  const Socket silent = listen_on("127.0.0.1", {0}, silent_port);
  { const Socket one = listen_on("127.0.0.1", {0}, free_port); }
  HubServer server({.ports = {silent_port, free_port}, .job = "job", .ranks = 1, .timeout = 20s});
  EXPECT_EQ(server.port(), free_port);
  auto options = client_options(server, 0, 1);
  options.place = [=] { return Place{.ports = {silent_port, free_port}}; };
  HubClient client(options, [] {});
  expect_error([&] { HubServer(HubServer::Options{.ports = {silent_port}, .ranks = 1}); },
               "rank 0 can listen at none of these:", std::to_string(silent_port), "Address already in use");
}

// A join ends within its timeout and 1 s; what a busy machine may take is beyond that.
constexpr auto join_timeout = 300ms, end_of_join = join_timeout + 1s + 3s;

TEST(Hub, IsNotLookedForBeyondTheTimeoutWhereManyServersSayNothing) {
  std::vector<Socket> servers;
  Place place;
  for (int i = 0; i < 17; ++i) servers.push_back(listen_on("127.0.0.1", {0}, place.ports.emplace_back()));
  const HubClient::Options options{.place = [=] { return place; },
                                   .job = "job",
                                   .token = "so that who has the other end is not asked",
                                   .rank = 1,
                                   .ranks = 2,
                                   .timeout = join_timeout};
  const auto begin = Clock::now();
  expect_error([&] { HubClient client(options, [] {}); }, "rank 0 was not found, at none of:");
  EXPECT_LT(Clock::now() - begin, end_of_join);
}

TEST(Hub, IsNotWaitedForBeyondTheTimeoutWhereItGreetsAlone) {
  Place place;
  const Socket listener = listen_on("127.0.0.1", {0}, place.ports.emplace_back());
  std::vector<FrameStream> greeted;
  std::jthread server([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (!wait_readable(listener, 10ms)) continue;
      greeted.emplace_back(accept_from(listener));
      greeted.back().send({FrameKind::greeting, {hub_protocol, "job", ""}});
    }
  });
  const HubClient::Options options{
      .place = [=] { return place; }, .job = "job", .rank = 1, .ranks = 2, .timeout = join_timeout};
  const auto begin = Clock::now();
  expect_error([&] { HubClient client(options, [] {}); }, "rank 0 was not found, at none of:");
  EXPECT_LT(Clock::now() - begin, end_of_join);
  server.request_stop();
  server.join();
  EXPECT_FALSE(greeted.empty());
}

TEST(Hub, ListensOnTheSocketThatALauncherHasOpened) {
  int port = 0, taken = 0;
  Socket listener = listen_on("127.0.0.1", {0}, port);
  const int fd = fcntl(listener.fd(), F_DUPFD, 10);
  setenv(listener_variable, std::to_string(fd).c_str(), 1);
  HubServer server({.ports = {1},
                    .listener = [](int& at) { return take_listener("127.0.0.1", at); },
                    .job = "job",
                    .ranks = 1,
                    .timeout = 20s});
  EXPECT_EQ(server.port(), port);
  EXPECT_EQ(std::getenv(listener_variable), nullptr);
  EXPECT_TRUE(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  listener.close();
  HubClient client(client_options(server, 0, 1), [] {});
  EXPECT_FALSE(take_listener("127.0.0.1", taken));
  for (const char* wrong : {"0", "one", "", "9999"}) {
    setenv(listener_variable, wrong, 1);
    expect_error([&] { take_listener("127.0.0.1", taken); }, "environment: REPRISE_LISTENER_FD is");
  }
}

TEST(Hub, ClosesTheSocketOfALauncherThatListensElsewhere) {
  int port = 0, taken = 0;
  Socket listener = listen_on("127.0.0.1", {0}, port);
  const int fd = fcntl(listener.fd(), F_DUPFD, 10);
  setenv(listener_variable, std::to_string(fd).c_str(), 1);
  EXPECT_FALSE(take_listener("127.0.0.2", taken));
  EXPECT_EQ(taken, 0);
  EXPECT_EQ(std::getenv(listener_variable), nullptr);
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
  listener.close();
  EXPECT_FALSE(connect_to("127.0.0.1", port));
}

// What is no frame ends its own connection alone.
TEST(Hub, StrangersChangeNothing) {
  HubServer server(server_options(2));
  std::vector<Socket> strangers;
  std::vector<std::string> texts{"GET / HTTP/1.0\r\n\r\n",
                                 std::string(100000, '\0'),
                                 std::string(5, '\xff'),
                                 encode({FrameKind::failure, {"0", "1", "I died", "-1"}}),
                                 encode({FrameKind::goodbye}),
                                 encode({FrameKind::hello, {"0", "2", "1"}}),
                                 encode({FrameKind::hello, {"0", "2", "1", "host", ""}}),
                                 encode({FrameKind::hello, {"-1", "2", "1"}}),
                                 encode({FrameKind::hello, {}}),
                                 encode({FrameKind::hello, {"x", "y", "z"}})};
  for (const std::string& text : texts) {
    strangers.push_back(connect_to("127.0.0.1", server.port()));
    send_all(strangers.back(), text);
  }
  auto joins = joined(server, 2);
  EXPECT_FALSE(joins[0].client->failure(100ms));
  joins[1].client->report({FailureKind::late, 1, "it works"});
  EXPECT_EQ(told(joins[0]), "it works");
}

TEST(Hub, IgnoresSigpipeUnlessTheProgramHandlesIt) {
  struct sigaction before {
  }, after{};
  std::signal(SIGPIPE, SIG_DFL);
  ignore_sigpipe();
  sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
  std::signal(SIGPIPE, [](int) {});
  sigaction(SIGPIPE, nullptr, &before);
  ignore_sigpipe();
  sigaction(SIGPIPE, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
  std::signal(SIGPIPE, SIG_IGN);
}

TEST(Sockets, KnowWhoseTheirOtherEndIs) {
  int port = 0;
  const Socket listener = listen_on("127.0.0.1", {0}, port);
  const Socket one = connect_to("127.0.0.1", port), other = accept_from(listener);
  EXPECT_TRUE(is_same_user(one));
  EXPECT_TRUE(is_same_user(other));
  EXPECT_FALSE(is_same_user(listener)) << "it has no other end";
}

TEST(Sockets, KnowTheirAddresses) {
  int port = 0;
  const Socket listener = listen_on("127.0.0.1", {0}, port);
  const Socket one = connect_to("127.0.0.1", port), other = accept_from(listener);
  for (const Socket* end : {&one, &other}) {
    EXPECT_EQ(own_address(*end), "127.0.0.1");
    EXPECT_EQ(peer_address(*end), "127.0.0.1");
  }
  EXPECT_EQ(peer_address(listener), "");
}

// 192.0.2.0/24 is no one's (RFC 5737), but for machines of which it is the own.
TEST(Sockets, WaitForNoMachineThatDoesNotAnswer) {
  const auto begin = Clock::now();
  EXPECT_FALSE(connect_to("192.0.2.254", 9, 100ms));
  EXPECT_LT(Clock::now() - begin, 10s);
}

TEST(Addresses, AreThoseOfTheirHosts) {
  EXPECT_EQ(address_of("localhost"), "127.0.0.1");
  EXPECT_EQ(address_of("10.1.2.3"), "10.1.2.3");
  expect_error([] { address_of("no.such.host.invalid"); }, "rank 0 is at \"no.such.host.invalid\"",
               "has no address");
  EXPECT_EQ(interface_of("127.0.0.1"), "lo");
  EXPECT_EQ(interface_of("203.0.113.9"), "");
  for (const std::string& own : own_addresses()) {
    EXPECT_FALSE(is_loopback(own));
    EXPECT_NE(interface_of(own), "");
  }
}

TEST(Addresses, HaveAPort) {
  const HostPort place = host_port_of("a.b:29500", 65535);
  EXPECT_EQ(place.host, "a.b");
  EXPECT_EQ(place.port, 29500);
  for (const char* text : {"", "a", "a:", ":1", "a:0", "a:x", "a:70000"})
    expect_error([&] { host_port_of(text, 65535); }, "--rendezvous is", "not host:port");
}

TEST(Frames, SurviveAnyCut) {
  const Frame frame{FrameKind::hello, {"", std::string(1000, 'x'), "3"}};
  const std::string bytes = encode(frame) + encode({FrameKind::goodbye});
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader;
    std::vector<Frame> got;
    for (const std::string& piece : {bytes.substr(0, cut), bytes.substr(cut)}) {
      reader.feed(piece);
      while (auto next = reader.next()) got.push_back(*next);
    }
    ASSERT_EQ(got.size(), 2u);
    EXPECT_EQ(got[0].fields, frame.fields);
    EXPECT_EQ(got[1].kind, FrameKind::goodbye);
  }
}

TEST(Frames, RefuseWhatIsNone) {
  auto read = [](const std::string& bytes) {
    FrameReader reader;
    reader.feed(bytes);
    return reader.next();
  };
  const std::string good = encode({FrameKind::failure, {"0", "1", "why", "250"}});
  EXPECT_EQ(failure_in(*read(good)).message, "why");
  EXPECT_EQ(failure_in(*read(good)).heard, 0.25);
  for (size_t i = 0; i + 1 < good.size(); ++i) EXPECT_FALSE(read(good.substr(0, i))) << "not whole";
  expect_error([&] { read(std::string("\xff\xff\xff\xff", 4) + "F"); }, "no frame");
  expect_error([&] { read(std::string(5, '\0')); }, "no frame");
  std::string long_field = good;
  long_field[5] = 100;
  expect_error([&] { read(long_field); }, "ends within a field");
  expect_error([] { failure_in({FrameKind::failure, {"0"}}); }, "a failure of 1 fields");
  expect_error(
      [] {
        failure_in({FrameKind::failure, {"7", "1", "", "-1"}});
      },
      "no number from 0 to 6 in field 0");
  expect_error([] { failure_in({FrameKind::failure, {"0", "1", "", "-2"}}); }, "no number from -1 to");
  EXPECT_EQ(failure_in(frame_of({FailureKind::late, 1, ""})).heard, -1) << "it is not known";
  expect_error([] { encode({FrameKind::failure, {std::string(longest_frame, 'x')}}); }, "the most are");
}

}  // namespace
}  // namespace reprise::distributed
