// Ranks that have come to a join and then stop, or make the others wait: who is named, and when.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>
#include <thread>

#include "reprise/distributed/hub/frame_stream.h"
#include "reprise/distributed/hub/hub_client.h"
#include "reprise/distributed/hub/hub_server.h"
#include "reprise/tests/distributed/hub_clients.h"
#include "reprise/tests/support/child.h"

namespace reprise::distributed {
namespace {

using testing::client_options;
using testing::generous;
using testing::short_timeout;
using namespace std::chrono_literals;

HubServer::Options server_options(int ranks) {
  return {.job = "job", .ranks = ranks, .timeout = 20s, .peer_timeout = short_timeout};
}

// How a join ended: "silent: rank 1 (pid ...", or "joined".
std::string outcome_of_join(const HubClient::Options& options) {
  try {
    const HubClient client(options, [] {});
    return "joined";
  } catch (const TransportError& error) {
    return detail::join(name_of(error.failure().kind), ": ", error.what());
  } catch (const Error& error) { return detail::join("Error: ", error.what()); }
}

bool says_silent(const std::string& outcome, int rank, pid_t pid) {
  return outcome.starts_with(
      detail::join("silent: rank ", rank, " (pid ", pid, ") is silent: no heartbeat for 1"));
}

// The connection of a rank that says who it is, and no more.
FrameStream come_and_say_no_more(int port, int rank, int ranks) {
  FrameStream stream(connect_to("127.0.0.1", port));
  while (!stream.next() && stream.receive()) {}
  stream.send(frame_of(Hello{.rank = rank, .ranks = ranks, .pid = getpid()}));
  return stream;
}

TEST(SilentInTheJoin, IsNamedWhileAnotherRankHasNotCome) {
  HubServer server(server_options(3));
  const FrameStream silent = come_and_say_no_more(server.port(), 1, 3);
  const auto begin = Clock::now();
  const std::string outcome = outcome_of_join(client_options(server.port(), 0, 3));
  EXPECT_TRUE(says_silent(outcome, 1, getpid())) << outcome;
  EXPECT_LT(Clock::now() - begin, short_timeout + generous);
}

TEST(SilentInTheJoin, IsNamedOnceAllHaveCome) {
  HubServer server(server_options(2));
  const FrameStream silent = come_and_say_no_more(server.port(), 1, 2);
  const std::string outcome = outcome_of_join(client_options(server.port(), 0, 2));
  EXPECT_TRUE(says_silent(outcome, 1, getpid())) << outcome;
}

// A process that is stopped by a signal while it makes its addresses, and continued when the others have heard.
TEST(SilentInTheJoin, IsToldToTheStoppedProcessToo) {
  if (!testing::children_have_threads) GTEST_SKIP() << "needs children that start threads";
  int port = 0;
  Socket listener = listen_on("127.0.0.1", {0}, port);
  const pid_t stopped = testing::fork_at_rest();
  if (stopped == 0) {
    alarm(testing::child_seconds);
    listener.close();
    HubClient::Options options = client_options(port, 1, 2);
    options.addresses = [](const std::string&) {
      raise(SIGSTOP);
      return std::vector<std::string>(2, "x");
    };
    _exit(says_silent(outcome_of_join(options), 1, getpid()) ? 0 : 1);
  }
  HubServer::Options options = server_options(2);
  options.listener = [&](int& at) {
    at = port;
    return std::move(listener);
  };
  HubServer server(options);
  const std::string outcome = outcome_of_join(client_options(port, 0, 2));
  EXPECT_TRUE(says_silent(outcome, 1, stopped)) << outcome;
  std::this_thread::sleep_for(50ms);  // its places come to a hub that has seen rank 0 go
  kill(stopped, SIGCONT);
  EXPECT_EQ(testing::outcome_of(stopped), "exit 0");
}

// The next frame that is no heartbeat, if one comes before so many of them.
std::optional<Frame> next_word(FrameStream& stream, int beats) {
  while (true) {
    while (auto frame = stream.next())
      if (frame->kind != FrameKind::beat || --beats == 0) return frame;
    if (!wait_readable(stream.socket(), 10s) || !stream.receive()) return {};
  }
}

// Ranks that were stopped may send what they were about to: the others are gone.
TEST(SilentInTheJoin, EndsItForAllThatStillSpeak) {
  HubServer server(server_options(2));
  FrameStream first = come_and_say_no_more(server.port(), 0, 2),
              second = come_and_say_no_more(server.port(), 1, 2);
  for (FrameStream* stream : {&first, &second})
    for (const FrameKind kind : {FrameKind::accepted, FrameKind::call, FrameKind::failure}) {
      const auto frame = next_word(*stream, 100);
      ASSERT_TRUE(frame && frame->kind == kind) << (frame ? char(frame->kind) : '-');
    }
  for (FrameStream* stream : {&first, &second}) stream->send({FrameKind::places, {"x", "x"}});
  for (FrameStream* stream : {&first, &second}) {
    const auto frame = next_word(*stream, 3);
    ASSERT_TRUE(frame && frame->kind == FrameKind::beat) << (frame ? char(frame->kind) : '-');
  }
}

// Rank 1 comes late, and makes its addresses for long: nobody is blamed for what is only slow.
TEST(SilentInTheJoin, IsNoneThatIsSlow) {
  HubServer server(server_options(2));
  auto first =
      std::async(std::launch::async, [&] { return outcome_of_join(client_options(server.port(), 0, 2)); });
  std::this_thread::sleep_for(short_timeout + 600ms);
  HubClient::Options options = client_options(server.port(), 1, 2);
  options.addresses = [](const std::string&) {
    std::this_thread::sleep_for(short_timeout + 600ms);
    return std::vector<std::string>(2, "x");
  };
  EXPECT_EQ(outcome_of_join(options), "joined");
  EXPECT_EQ(first.get(), "joined");
}

TEST(SilentInTheJoin, IsNoneWhereThePeerTimeoutIs0) {
  HubServer::Options options = server_options(2);
  options.timeout = 2s;
  options.peer_timeout = 0ms;
  HubServer server(options);
  const FrameStream silent = come_and_say_no_more(server.port(), 1, 2);
  const std::string outcome = outcome_of_join(client_options(server.port(), 0, 2));
  EXPECT_NE(outcome.find("not all of 2 ranks came within 2 s"), std::string::npos) << outcome;
}

}  // namespace
}  // namespace reprise::distributed
