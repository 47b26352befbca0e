// What a rank sent before it left arrives, however slow the other ranks are.
#include <gtest/gtest.h>

#include <csignal>
#include <thread>

#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/child.h"

namespace reprise::distributed {
namespace {

using testing::places_of;
using namespace std::chrono_literals;

constexpr uint64_t pid_tag = 100, tag = 101;

std::vector<char> message_of(size_t bytes) {
  std::vector<char> message(bytes);
  for (size_t i = 0; i < bytes; ++i) message[i] = char(i % 251);
  return message;
}

// Sends to rank 1 while that cannot read, and leaves.
int send_and_leave(Transport& transport, size_t bytes) {
  pid_t other = 0;
  const Transport::Receive pid{1, &other, sizeof(other)};
  transport.exchange(pid_tag, {}, {&pid, 1}, Clock::now() + 10s);
  std::this_thread::sleep_for(100ms);  // until it has said what it waits for
  kill(other, SIGSTOP);
  std::thread waker([&] {
    std::this_thread::sleep_for(500ms);
    kill(other, SIGCONT);
  });
  const std::vector<char> message = message_of(bytes);
  const Transport::Send send{1, message.data(), bytes};
  transport.exchange(tag, {&send, 1}, {}, Clock::now() + 10s);
  transport.leave("");
  waker.join();
  return 0;
}

int receive_last(Transport& transport, size_t bytes) {
  const pid_t own = getpid();
  const Transport::Send pid{0, &own, sizeof(own)};
  transport.exchange(pid_tag, {&pid, 1}, {}, Clock::now() + 10s);
  std::vector<char> message(bytes);
  const Transport::Receive receive{0, message.data(), bytes};
  transport.exchange(tag, {}, {&receive, 1}, Clock::now() + 10s);
  return message == message_of(bytes) ? 0 : 1;
}

// Rank 1 has left, and rank 2 takes its note late.
int post_and_leave(Transport& transport, const Note& note) {
  if (transport.rank() == 0) {
    for (const int to : {1, 2}) transport.post(to, tag, note);
    std::this_thread::sleep_for(200ms);
  }
  if (transport.rank() == 2) {
    std::this_thread::sleep_for(500ms);
    return transport.take(0, tag, Clock::now() + 10s) == note ? 0 : 1;
  }
  transport.leave("");
  return 0;
}

class Leave : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo() || !testing::children_have_threads)
      GTEST_SKIP() << "needs Gloo, and children that start threads";
  }

  // How each rank's process ended.
  template <class Body>
  static std::vector<std::string> outcomes(int ranks, const Body& body) {
    std::vector<pid_t> children;
    for (const Environment& place : places_of(ranks)) {
      children.push_back(testing::fork_at_rest());
      if (children.back() == 0) _exit(run_rank(place, body));
    }
    std::vector<std::string> outcomes;
    for (pid_t child : children) outcomes.push_back(testing::outcome_of(child));
    return outcomes;
  }

 private:
  template <class Body>
  static int run_rank(const Environment& place, const Body& body) try {
    alarm(testing::child_seconds);
    const auto transport = connect_gloo(place, {.timeout = 10s});
    return body(*transport);
  } catch (const TransportError& error) {
    std::fprintf(stderr, "rank %d: %s\n", place.rank, error.what());
    return 2;
  }
};

TEST_F(Leave, WhatWasSentArrives) {
  for (const size_t bytes : {100, 50'000, 100'000, 200'000, 400'000, 3'000'000}) {
    const auto ended = outcomes(2, [&](Transport& transport) {
      return transport.rank() == 0 ? send_and_leave(transport, bytes) : receive_last(transport, bytes);
    });
    EXPECT_EQ(ended, std::vector<std::string>(2, "exit 0")) << bytes << " bytes";
  }
}

TEST_F(Leave, NotesArriveThoughAnotherRankTakesNone) {
  Note note{};
  note[3] = 7;
  const auto ended = outcomes(3, [&](Transport& transport) { return post_and_leave(transport, note); });
  EXPECT_EQ(ended, std::vector<std::string>(3, "exit 0"));
}

}  // namespace
}  // namespace reprise::distributed
