// The switchboard of ranks that are threads: what is sent is read while its sender waits, and never afterwards.
#include "reprise/distributed/threads/switchboard.h"

#include <gtest/gtest.h>

#include <thread>

#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using namespace std::chrono_literals;

Clock::time_point in(std::chrono::milliseconds time) { return Clock::now() + time; }

TEST(Switchboard, GivesWhatCameBeforeAFailure) {
  Switchboard board(2);
  Note note{};
  note[0] = 'x';
  board.post(0, 1, 7, note);
  board.fail({FailureKind::died, 0, "rank 0 died"});
  EXPECT_EQ(board.take(0, 1, 7, in(10ms)), note);
  testing::expect_error([&] { board.take(0, 1, 7, in(10ms)); }, "rank 0 died");
}

TEST(Switchboard, ReadsNothingOfASenderThatGaveUp) {
  Switchboard board(2);
  char sent = 'a', got = 0;
  const Transport::Send send{1, &sent, 1};
  const Transport::Receive receive{0, &got, 1};
  testing::expect_error(
      [&] {
        board.exchange(0, 7, {&send, 1}, {}, in(10ms));
      },
      "what rank 1 exchanges in the call did not come in time");
  testing::expect_error(
      [&] {
        board.exchange(1, 7, {}, {&receive, 1}, in(10ms));
      },
      "what rank 0 exchanges in the call did not come in time");
  EXPECT_EQ(got, 0);
}

TEST(Switchboard, KeepsTagsAndRanksApart) {
  Switchboard board(3);
  auto note = [](char c) {
    Note made{};
    made[0] = c;
    return made;
  };
  board.post(0, 2, 5, note('a'));
  board.post(1, 2, 5, note('b'));
  board.post(0, 2, 6, note('c'));
  board.post(0, 2, 5, note('d'));
  EXPECT_EQ(board.take(1, 2, 5, in(0ms))[0], 'b');
  EXPECT_EQ(board.take(0, 2, 6, in(0ms))[0], 'c');
  EXPECT_EQ(board.take(0, 2, 5, in(0ms))[0], 'a');
  EXPECT_EQ(board.take(0, 2, 5, in(0ms))[0], 'd');
  testing::expect_error([&] { board.take(0, 2, 5, in(1ms)); }, "rank 0 did not make the call in time");
}

TEST(Switchboard, WhatWasSentBeforeLeavingArrives) {
  Switchboard board(2);
  board.post(0, 1, 1, Note{});
  board.leave(0, "all_reduce #7 of group world");
  board.take(0, 1, 1, in(0ms));
  testing::expect_error([&] { board.take(0, 1, 1, in(10s)); },
                        "rank 0 left the group after all_reduce #7 of group world");
}

TEST(Switchboard, FailureWakesWhoWaits) {
  Switchboard board(2);
  std::thread other([&] { board.fail({FailureKind::died, 0, "rank 0 died"}); });
  testing::expect_error([&] { board.take(0, 1, 1, in(60s)); }, "rank 0 died");
  other.join();
  board.fail({FailureKind::late, 1, "a later one"});
  testing::expect_error([&] { board.post(0, 1, 1, Note{}); }, "rank 0 died");
}

}  // namespace
}  // namespace reprise::distributed
