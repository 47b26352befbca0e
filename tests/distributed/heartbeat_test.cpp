// Ranks that are stopped, or whose machine is gone: their connections stay, but no heartbeat comes.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <thread>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/hub/hub_client.h"
#include "reprise/distributed/hub/hub_server.h"
#include "reprise/tests/distributed/hub_clients.h"
#include "reprise/tests/distributed/mute_rank.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/child.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::client_options;
using testing::expect_error;
using testing::generous;
using testing::MuteRank;
using testing::places_of;
using testing::Ranks;
using testing::run_places;
using testing::run_ranks;
using testing::short_timeout;
using namespace std::chrono_literals;

// Rank 0's hub by hand, for one rank of two: the end of the connection once it has greeted, and welcomed too if it does.
FrameStream hub_by_hand(const Socket& listener, bool welcomes) {
  FrameStream stream(accept_from(listener));
  stream.send({FrameKind::greeting, {hub_protocol, "job", ""}});
  while (!stream.next() && stream.receive()) {}
  stream.send({FrameKind::accepted, {""}});
  stream.send({FrameKind::call, {"rank 0 (host a\x1b[31m, pid 7)"}});
  if (welcomes) stream.send({FrameKind::welcome, {"x", "x", "x", "x", "x", "x"}});
  return stream;
}

TEST(Heartbeat, IsWaitedForLongerBetweenMachines) {
  using distributed::peer_timeout_of;
  EXPECT_EQ(peer_timeout_of({}, "127.0.0.1"), 3s);
  EXPECT_EQ(peer_timeout_of({}, "10.0.0.7"), 10s);
  EXPECT_EQ(peer_timeout_of({}, "0.0.0.0"), 10s);
  EXPECT_EQ(peer_timeout_of(0ms, "10.0.0.7"), 0s);
  EXPECT_EQ(peer_timeout_of(2s, "127.0.0.1"), 2s);
}

// What rank 0 is told where rank 1 says nothing once all have come.
std::optional<Failure> told_of_mute_rank(std::chrono::milliseconds peer_timeout,
                                         std::chrono::milliseconds time) {
  HubServer server({.job = "job", .ranks = 2, .timeout = 20s, .peer_timeout = peer_timeout});
  std::thread mute;
  std::optional<Failure> told;
  std::atomic<bool> is_over{false};
  mute = std::thread([&] {
    const MuteRank rank(server.port(), 1, 2, "x");
    EXPECT_EQ(rank.wrong, "");
    while (!is_over) std::this_thread::sleep_for(10ms);
  });
  const HubClient client(client_options(server.port(), 0, 2), [] {});
  told = client.failure(time);
  is_over = true;
  mute.join();
  return told;
}

TEST(Heartbeats, RankWithoutThemIsSilent) {
  const auto begin = Clock::now();
  const auto told = told_of_mute_rank(short_timeout, 20s);
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, FailureKind::silent);
  EXPECT_EQ(told->rank, 1);
  EXPECT_NE(told->message.find("rank 1 (pid " + std::to_string(getpid()) + ") is silent: no heartbeat for 1"),
            std::string::npos)
      << told->message;
  EXPECT_GE(Clock::now() - begin, short_timeout);
  EXPECT_LT(Clock::now() - begin, short_timeout + generous);
}

// It has sent none for a while, and then its process ends.
TEST(Heartbeats, DeathSaysWhenTheRankWasLastHeard) {
  HubServer server({.job = "job", .ranks = 2, .timeout = 20s, .peer_timeout = 20s});
  std::thread mute([&] {
    const MuteRank rank(server.port(), 1, 2, "x");
    EXPECT_EQ(rank.wrong, "");
    std::this_thread::sleep_for(1500ms);
  });
  const HubClient client(client_options(server.port(), 0, 2), [] {});
  const auto told = client.failure(20s);
  mute.join();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->kind, FailureKind::died);
  EXPECT_GE(told->heard, 0.6) << "also where the hub was not looking for a while";
  EXPECT_LT(told->heard, 1.5 + std::chrono::duration<double>(generous).count());
}

// The end of the hub's connection, as that of any other rank.
TEST(Heartbeats, DeathOfRank0SaysWhoItWas) {
  int port = 0;
  const Socket listener = listen_on("127.0.0.1", {0}, port);
  std::thread hub([&] {
    const FrameStream stays = hub_by_hand(listener, true);
    std::this_thread::sleep_for(1500ms);
  });
  HubClient::Options options = client_options(port, 1, 2);
  options.peer_timeout = 20s;
  const HubClient client(options, [] {});
  const auto told = client.failure(20s);
  hub.join();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->message, "rank 0 (host a\\x1b[31m, pid 7) died: its connection closed without a goodbye");
  EXPECT_GE(told->heard, 0.6);
}

TEST(Heartbeats, NoneIsSilentWhereThePeerTimeoutIs0) { EXPECT_FALSE(told_of_mute_rank(0ms, 2500ms)); }

TEST(Heartbeats, RanksThatSendThemAreNotSilent) {
  HubServer server({.job = "job", .ranks = 2, .timeout = 20s, .peer_timeout = short_timeout});
  std::unique_ptr<HubClient> other;
  std::thread thread(
      [&] { other = std::make_unique<HubClient>(client_options(server.port(), 1, 2), [] {}); });
  const HubClient client(client_options(server.port(), 0, 2), [] {});
  thread.join();
  EXPECT_FALSE(client.failure(2500ms));
  EXPECT_FALSE(other->failure());
}

// It greets, and says no more.
TEST(Heartbeats, HubWithoutThemIsSilent) {
  for (const bool welcomes : {true, false}) {
    int port = 0;
    const Socket listener = listen_on("127.0.0.1", {0}, port);
    FrameStream stays;
    std::thread hub([&] { stays = hub_by_hand(listener, welcomes); });
    const auto begin = Clock::now();
    if (welcomes) {
      const HubClient client(client_options(port, 1, 2), [] {});
      const auto told = client.failure(20s);
      ASSERT_TRUE(told);
      EXPECT_EQ(told->kind, FailureKind::silent);
      EXPECT_EQ(told->rank, 0);
      EXPECT_TRUE(told->message.starts_with("rank 0 (host a\\x1b[31m, pid 7) is silent: no heartbeat for 1"))
          << told->message;
      EXPECT_GE(told->heard, 1);
    } else {
      expect_error([&] { HubClient client(client_options(port, 1, 2), [] {}); }, "rank 0 (host a",
                   "pid 7) is silent: no heartbeat for 1");
    }
    EXPECT_LT(Clock::now() - begin, short_timeout + generous);
    hub.join();
  }
}

TEST(Heartbeats, WhoWasStoppedItselfHearsFirst) {
  Silence silence(short_timeout);
  std::this_thread::sleep_for(1500ms);  // as if stopped
  EXPECT_FALSE(silence.is_too_long()) << "at most two heartbeats count";
  const auto begin = Clock::now();
  while (!silence.is_too_long() && Clock::now() - begin < generous) std::this_thread::sleep_for(10ms);
  EXPECT_GE(silence.seconds(), 1);
  silence.heard();
  EXPECT_FALSE(silence.is_too_long());
}

TEST(Heartbeats, SilenceIsCountedUpToNow) {
  Silence silence(short_timeout);
  std::this_thread::sleep_for(200ms);  // without a look at it
  EXPECT_GE(silence.seconds(), 0.2);
  std::this_thread::sleep_for(800ms);
  EXPECT_LE(silence.seconds(), 0.5) << "at most two heartbeats count, as this process may have been stopped";
}

TEST(ClockOffsets, AreThatOfTheQuickestOfTheLastHeartbeats) {
  ClockOffset clock;
  EXPECT_EQ(clock.seconds(), 0) << "none came";
  clock.heard(1000.5, 995.75);  // ahead by 5 s, and on its way for 0.25 s
  clock.heard(1001.5, 997.5);
  EXPECT_EQ(clock.seconds(), 4.75);
  for (int i = 0; i < 64; ++i) clock.heard(1000, 1002.5);  // it has been set
  EXPECT_EQ(clock.seconds(), -2.5);
}

// One clock: what a heartbeat takes on its way is all that is seen.
TEST(ClockOffsets, OfOneClockIsWhatTheQuickestHeartbeatTook) {
  HubServer server({.job = "job", .ranks = 2, .timeout = 20s, .peer_timeout = 20s});
  std::unique_ptr<HubClient> other;
  std::thread thread(
      [&] { other = std::make_unique<HubClient>(client_options(server.port(), 1, 2), [] {}); });
  const HubClient client(client_options(server.port(), 0, 2), [] {});
  thread.join();
  for (int tries = 0; tries < 1000 && other->clock_offset() == 0; ++tries) std::this_thread::sleep_for(5ms);
  EXPECT_LT(other->clock_offset(), 0);
  EXPECT_GT(other->clock_offset(), -10) << "seconds; on a machine that is loaded";
}

class Stopped : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo() || !testing::children_have_threads)
      GTEST_SKIP() << "needs Gloo, and children that start threads";
  }
};

// Sums until another rank's end; rank `victim` is stopped by a signal and continued by the rank after it, once that has heard.
std::string sum_until_the_end(ProcessGroup& group, int victim) {
  const auto pids = group.gather_text(std::to_string(getpid()));
  Tensor x = Tensor::zeros({1 << 16});
  auto begin = Clock::now();
  std::string outcome = "no error";
  try {
    for (int call = 0; call < 100000; ++call) {
      if (call == 7) begin = Clock::now();
      if (call == 7 && group.rank() == victim) raise(SIGSTOP);
      group.all_reduce(x).wait();
    }
  } catch (const DistributedError& error) {
    const bool well = error.kind() == FailureKind::silent && error.rank() == victim && error.exit_code() == 5;
    outcome = well ? "silent" : error.what();
  }
  if (group.rank() != victim && Clock::now() - begin > short_timeout + generous) outcome += ", late";
  if (group.rank() == (victim + 1) % group.size()) kill(pid_t(std::stol(pids[size_t(victim)])), SIGCONT);
  return outcome;
}

TEST_F(Stopped, RankIsNamedOnAllAndHearsItItself) {
  for (int victim = 0; victim < 3; ++victim) {
    const auto outcomes =
        run_places(places_of(3), [&](ProcessGroup& group) { return sum_until_the_end(group, victim); },
                   {.timeout = 60s, .peer_timeout = short_timeout});
    EXPECT_EQ(outcomes, (std::vector<std::string>{"silent", "silent", "silent"})) << "victim " << victim;
  }
}

// A rank computes for three times the peer timeout, and calls nothing meanwhile.
TEST_F(Stopped, RankThatComputesIsNot) {
  const auto wrong = run_places(places_of(3),
                                [](ProcessGroup& group) -> std::string {
                                  group.barrier();
                                  const auto begin = Clock::now();
                                  while (group.rank() == 1 && Clock::now() - begin < 3 * short_timeout) {}
                                  group.barrier();
                                  return "";
                                },
                                {.timeout = 60s, .peer_timeout = short_timeout});
  EXPECT_EQ(wrong, std::vector<std::string>(3));
}

// The address of a listening socket, as Gloo writes those of its pairs.
std::string gloo_address(int port) {
  struct {
    sockaddr_storage address{};
    ssize_t sequence = 7;
  } bytes;
  auto& at = reinterpret_cast<sockaddr_in&>(bytes.address);
  at.sin_family = AF_INET;
  at.sin_port = htons(uint16_t(port));
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes));
}

// The process of a rank that joins at `hub_port` and is never connected to: it ends at once, or stays for a time.
int join_and_go(int hub_port, int port, bool dies) {
  for (auto begin = Clock::now(); Clock::now() - begin < 10s; std::this_thread::sleep_for(20ms)) {
    if (const Socket probe = connect_to("127.0.0.1", hub_port); !probe) continue;
    const MuteRank rank(hub_port, 2, 3, gloo_address(port));
    if (!dies) std::this_thread::sleep_for(short_timeout + 1s);
    return rank.wrong.empty() ? 0 : 1;
  }
  return 2;
}

// Two ranks connect to a third one, which has joined and then dies, or is stopped, before it connects. It is a process, as
// they are, and forked first: a connection of this one would go on in them.
TEST_F(Stopped, RankThatGoesWhileOthersConnectToItIsNamed) {
  for (const bool dies : {true, false}) {
    auto places = places_of(3);
    for (auto& place : places) place.job = "";
    int port = 0, hub_port = 0;
    const Socket listener = listen_on("127.0.0.1", {0}, port);
    { const Socket any = listen_on("127.0.0.1", {0}, hub_port); }
    for (auto& place : places) place.port = hub_port;
    places.pop_back();
    const pid_t third = testing::fork_at_rest();
    if (third == 0) {
      alarm(testing::child_seconds);
      _exit(join_and_go(hub_port, port, dies));
    }
    const auto begin = Clock::now();
    const auto outcomes =
        run_places(places, [](ProcessGroup&) { return "joined"; }, {.peer_timeout = short_timeout});
    EXPECT_LT(Clock::now() - begin, short_timeout + generous);
    EXPECT_EQ(testing::outcome_of(third), "exit 0");
    for (const std::string& outcome : outcomes) {
      EXPECT_NE(outcome.find(dies ? "died: rank 2 (pid " : "silent: rank 2 (pid "), std::string::npos)
          << outcome;
    }
  }
}

TEST(Heartbeats, PeerTimeoutsAreNotShorterThanSeveral) {
  if (!has_gloo()) GTEST_SKIP();
  expect_error([] { connect_gloo({.ranks = 2, .port = 20000}, {.timeout = 1s, .peer_timeout = 900ms}); },
               "a peer timeout of 900 ms; heartbeats come every 250 ms: give 0 or at least 1000");
}

}  // namespace
}  // namespace reprise::distributed
