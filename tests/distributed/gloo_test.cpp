// Ranks that are processes: joining by a launcher's variables, and what survivors are told when one of them is killed.
#include "reprise/distributed/gloo/gloo_transport.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <thread>

#include "reprise/distributed/hub/address.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/distributed/hub/rendezvous.h"
#include "reprise/io/atomic_file.h"
#include "reprise/io/file.h"
#include "reprise/io/folder.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/child.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::places_of;
using testing::Ranks;
using testing::run_places;
using testing::run_ranks;
using namespace std::chrono_literals;

const std::string token = "0123456789abcdef0123456789abcdef";

class Gloo : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo() || !testing::children_have_threads)
      GTEST_SKIP() << "needs Gloo, and children that start threads";
  }
};

Tensor ones(int64_t count) {
  Tensor x = Tensor::zeros({count});
  return x.fill_(1);
}

// A program of several ranks, as torchrun starts it.
int run_rank(int rank) try {
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("MASTER_PORT", std::to_string(20000 + getppid() % 20000).c_str(), 1);
  auto group = ProcessGroup::join({.timeout = 30s});
  Tensor x = ones(3).mul_(rank + 1);
  group->all_reduce(x).wait();
  return x.to_vector<float>() == std::vector<float>{3, 3, 3} && group->rank() == rank ? 0 : 1;
} catch (const Error& error) {
  std::cerr << error.what() << '\n';
  return 2;
}

TEST_F(Gloo, JoinsByALaunchersVariables) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < 2; ++rank) {
    const pid_t child = testing::fork_at_rest();
    if (child == 0) {
      alarm(testing::child_seconds);
      _exit(run_rank(rank));
    }
    children.push_back(child);
  }
  for (pid_t child : children) EXPECT_EQ(testing::outcome_of(child), "exit 0");
}
TEST_F(Gloo, KilledRankIsNamedOnAllOthers) {
  for (int victim = 0; victim < 4; ++victim) {
    for (const int64_t count : {1, 1 << 20}) {
      const auto wrong = run_ranks(Ranks::gloo, 4, [&](ProcessGroup& group) -> std::string {
        Tensor x = ones(count);
        for (int call = 0; call < 5; ++call) group.all_reduce(x, ReduceOp::mean).wait();
        auto begin = Clock::now();
        try {
          for (int call = 0; call < 1000; ++call) {
            begin = Clock::now();
            if (call == 7 && group.rank() == victim) raise(SIGKILL);
            group.all_reduce(x, ReduceOp::mean).wait();
          }
        } catch (const DistributedError& error) {
          if (error.exit_code() != 4 || error.kind() != FailureKind::died || error.rank() != victim)
            return error.what();
          const std::string text = error.what(), dead = std::to_string(victim);
          const bool is_neighbour = (group.rank() + 4 - victim) % 2 == 1;
          if (text.find("\n  rank " + dead + " was last heard ") == std::string::npos ||
              (text.find(" s before; its last call that is known here: all_reduce #12 of group world") !=
               std::string::npos) != is_neighbour)
            return text;
          return Clock::now() - begin < 10s ? "named" : "named late";
        }
        return "no error";
      });
      for (int rank = 0; rank < 4; ++rank)
        EXPECT_EQ(wrong[size_t(rank)], rank == victim ? "signal 9" : "named")
            << "victim " << victim << ", rank " << rank;
    }
  }
}

TEST_F(Gloo, RankThatNeverComesIsToldByWhoDid) {
  auto places = places_of(3);
  places.erase(places.begin() + 1);
  const auto wrong = run_places(places, [](ProcessGroup&) { return ""; }, {}, {.timeout = 3s});
  for (const std::string& one : wrong) {
    EXPECT_NE(one.find("refused: join: not all of 3 ranks came within 3 s"), std::string::npos) << one;
    EXPECT_NE(one.find("rank 0 (pid "), std::string::npos) << one;
    EXPECT_NE(one.find("rank 2 (pid "), std::string::npos) << one;
  }
}

TEST_F(Gloo, NameWithoutAnAddressIsAskedForNoLongerThanTheTimeout) {
  if (!has_mac()) GTEST_SKIP() << "needs libcrypto";
  const auto begin = Clock::now();
  expect_error(
      [&] {
        connect_gloo({.rank = 1, .ranks = 2, .address = "no.such.host.invalid", .port = 20000},
                     {.timeout = 500ms, .token = token});
      },
      "which has no address");
  EXPECT_LT(Clock::now() - begin, 20s) << "with what the name service itself takes";
}

TEST_F(Gloo, TwoJobsOfOnePortDoNotMeet) {
  auto first = places_of(2), second = places_of(2);
  std::vector<Environment> all{first[0], second[0], first[1], second[1]};
  const auto wrong = run_places(
      all, [](ProcessGroup& group) { return group.gather_text("x").size() == 2 ? "" : "another size"; },
      {.timeout = 30s});
  for (const std::string& one : wrong) EXPECT_EQ(one, "");
}

TEST_F(Gloo, NeedsATokenBeyondLoopback) {
  for (const char* address : {"10.0.0.1", "0.0.0.0"})
    for (const int rank : {0, 1})
      expect_error(
          [&] {
            connect_gloo({.rank = rank, .ranks = 2, .address = address, .port = 20000}, {.timeout = 1s});
          },
          std::string("rank 0 is at \"") + address, "set REPRISE_JOB_TOKEN on all of them", "--token-file");
  expect_error([] { connect_gloo({.ranks = 2, .port = 20000}, {.timeout = 1s, .bind = "0.0.0.0"}); },
               "rank 0 is at \"127.0.0.1\", 0.0.0.0", "REPRISE_JOB_TOKEN");
}

std::string sums_of(ProcessGroup& group) {
  Tensor x = ones(1 << 16).mul_(group.rank() + 1);
  group.all_reduce(x).wait();
  return x.to_vector<float>().back() == 6 ? "" : "another sum";
}

TEST_F(Gloo, RanksWithATokenMeetOnAnAddressOfTheMachine) {
  const std::vector<std::string> own = own_addresses();
  if (!has_mac() || own.empty()) GTEST_SKIP() << "needs libcrypto, and an address beside loopback";
  for (const char* bind : {"", "0.0.0.0"}) {
    auto places = places_of(3);
    for (auto& place : places) place.address = own.front();
    const auto wrong = run_places(places, sums_of, {}, {.timeout = 30s, .token = token, .bind = bind});
    EXPECT_EQ(wrong, std::vector<std::string>(3)) << bind;
  }
}

TEST_F(Gloo, RanksMeetByAFile) {
  testing::TempFolder folder;
  if (!has_mac()) GTEST_SKIP() << "needs libcrypto";
  auto places = places_of(3);
  for (auto& place : places) {
    place.rendezvous_folder = folder / "";
    place.address = place.rank == 0 ? "127.0.0.1" : "";
  }
  folder.write("kept", "");
  RendezvousFile earlier(folder / "", places[0].job, "the token of an earlier job");
  earlier.write("127.0.0.1", 1);
  io::write_file(RendezvousFile(folder / "", places[0].job, token).path(), io::read_file(earlier.path()));
  earlier.remove();
  std::swap(places[0], places[2]);  // the others look for the file before it is there
  const auto wrong = run_places(places, sums_of, {}, {.timeout = 30s, .token = token});
  EXPECT_EQ(wrong, std::vector<std::string>(3));
  EXPECT_EQ(io::names_in(folder / "").size(), 1u) << "what rank 0 wrote is left";
}

TEST_F(Gloo, RanksMayBeFarAheadOfOthers) {
  testing::expect_ranks_well(Ranks::gloo, 3, [](ProcessGroup& group) -> std::string {
    std::vector<Tensor> x;
    std::vector<Work> works;
    for (int call = 0; call < 300; ++call) {
      if (group.rank() == 1 && call == 0) std::this_thread::sleep_for(300ms);
      x.push_back(ones(3));
      works.push_back(group.broadcast(x.back(), 0));
    }
    for (const Work& work : works) work.wait();
    return "";
  });
}

}  // namespace
}  // namespace reprise::distributed
