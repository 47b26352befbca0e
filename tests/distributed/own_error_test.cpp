// What a rank meets itself in a call: it gets that as it is, and the others are told who failed in what.
// labels: concurrency
#include <gtest/gtest.h>

#include <thread>

#include "reprise/core/memory.h"
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/tests/distributed/broken_transport.h"
#include "reprise/tests/distributed/ranks.h"

namespace reprise::distributed {
namespace {

using testing::Broken;

constexpr int ranks = 3, at_fault = 1;

// What `work` throws, by kind.
std::string thrown_by(const std::function<void()>& work) {
  try {
    work();
  } catch (const DistributedError& error) {
    return std::string(name_of(error.kind())) + ": " + error.failure().message;
  } catch (const OutOfMemory& error) {
    return std::string("OutOfMemory: ") + error.what();
  } catch (const Error& error) {
    return std::string("Error: ") + error.what();
  } catch (const std::bad_alloc&) { return "bad_alloc"; } catch (const std::exception& error) {
    return std::string("exception: ") + error.what();
  }
  return "";
}

// What each rank is thrown by some calls, by the one after them, and when it asks: the same each time.
std::vector<std::string> thrown_on_ranks(std::vector<std::unique_ptr<ProcessGroup>> groups) {
  std::vector<std::string> all(groups.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < groups.size(); ++rank)
    threads.emplace_back([&, rank] {
      ProcessGroup& group = *groups[rank];
      const Tensor x = Tensor::zeros({5});
      all[rank] = thrown_by([&] {
        for (int i = 0; i < 3; ++i) group.all_reduce(x).wait();
      });
      EXPECT_EQ(thrown_by([&] { group.barrier(); }), all[rank]) << "rank " << rank;
      EXPECT_EQ(thrown_by([&] { group.check_alive(); }), all[rank]) << "rank " << rank;
    });
  for (std::thread& thread : threads) thread.join();
  return all;
}

// Rank 1 throws it in its k-th call of any function of its transport.
void expect_own(const std::function<void()>& act, const std::string& own, const std::string& told) {
  for (const Broken which : {Broken::post, Broken::take, Broken::exchange})
    for (int k = 0; k < 4; ++k) {
      const auto all = thrown_on_ranks(testing::make_groups_with_broken(ranks, at_fault, which, k, act));
      for (size_t rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(all[rank], rank == at_fault ? own : "left: rank 1 failed in all_reduce: " + told)
            << "rank " << rank << ", function " << int(which) << ", call " << k;
    }
}

TEST(OwnError, ALackOfMemoryStaysOne) {
  expect_own([] { throw std::bad_alloc(); }, "bad_alloc", "out of memory");
  expect_own([] { throw OutOfMemory("3 MiB of 2"); }, "OutOfMemory: 3 MiB of 2", "3 MiB of 2");
}

TEST(OwnError, OfAnyOtherKindKeepsIt) {
  expect_own([] { fail("a limit is reached"); }, "Error: a limit is reached", "a limit is reached");
  expect_own([] { throw std::runtime_error("no thread"); }, "exception: no thread", "no thread");
}

// A library may throw what it likes once its connections are gone.
TEST(OwnError, AfterAnotherRanksFailureFollowsFromIt) {
  auto transports = make_thread_transports(2);
  const std::shared_ptr<Transport> other = transports[0];
  transports[1] = std::make_shared<testing::BrokenTransport>(transports[1], Broken::exchange, 0, [&] {
    other->fail({FailureKind::died, 0, "rank 0 died"});
    throw std::runtime_error("the connection is closed");
  });
  std::vector<std::unique_ptr<ProcessGroup>> groups;
  for (auto& transport : transports) groups.push_back(ProcessGroup::over(transport));
  EXPECT_EQ(thrown_on_ranks(std::move(groups)), (std::vector<std::string>(2, "died: rank 0 died")));
}

// What a rank that has no memory to handle errors throws.
std::string thrown_without_memory(const std::function<void()>& act) {
  auto transports = make_thread_transports(2);
  auto broken = std::make_shared<testing::BrokenTransport>(transports[1], Broken::post, 0, act);
  broken->lack_memory();
  const auto group = ProcessGroup::over(broken);
  const Tensor x = Tensor::zeros({5});
  const std::string thrown = thrown_by([&] { group->all_reduce(x).wait(); });
  EXPECT_EQ(thrown_by([&] { group->check_alive(); }), thrown);
  return thrown;
}

TEST(OwnError, AndATransportsStayTheCauseWhereThereIsNoMemoryToTellThem) {
  EXPECT_EQ(thrown_without_memory([] { fail("a limit is reached"); }), "Error: a limit is reached");
  EXPECT_EQ(thrown_without_memory([] {
              throw TransportError({FailureKind::died, 0, "rank 0 died"});
            }),
            "died: rank 0 died");
}

TEST(OwnError, OfAThreadOfTheTransportIsThrownByCalls) {
  auto transports = make_thread_transports(2);
  auto broken = std::make_shared<testing::BrokenTransport>(transports[1], Broken::post, 1000, [] {});
  const auto group = ProcessGroup::over(broken);
  group->check_alive();
  broken->meet_own(std::make_exception_ptr(std::bad_alloc()));
  EXPECT_EQ(thrown_by([&] { group->barrier(); }), "bad_alloc");
  EXPECT_EQ(thrown_by([&] { group->check_alive(); }), "bad_alloc");
}

// A thread of the transport may end a call by what it has told the others: this rank still gets what it was.
TEST(OwnError, OfAThreadOfTheTransportComesBeforeTheFailureThatTellsOfIt) {
  auto transports = make_thread_transports(2);
  std::shared_ptr<testing::BrokenTransport> broken;
  broken = std::make_shared<testing::BrokenTransport>(transports[1], Broken::post, 0, [&] {
    broken->meet_own(std::make_exception_ptr(std::bad_alloc()));
    throw TransportError({FailureKind::left, 1, "rank 1 failed in its hub's thread: out of memory"});
  });
  const auto group = ProcessGroup::over(broken);
  EXPECT_EQ(thrown_by([&] { group->barrier(); }), "bad_alloc");
  EXPECT_EQ(thrown_by([&] { group->check_alive(); }), "bad_alloc");
}

// The hub's thread, on rank 0, which waits for the others as any rank.
TEST(OwnError, OfTheHubWhileRanksJoinIsThatOfItsRank) {
  if (!has_gloo() || !has_mac()) GTEST_SKIP() << "needs Gloo, and tokens";
  const std::vector<Environment> places = testing::places_of(2);
  std::thread stranger([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // rank 0 has come
    thrown_by([&] { connect_gloo(places[1], {.timeout = std::chrono::seconds(2)}); });
  });
  const std::string thrown = thrown_by([&] {
    connect_gloo(places[0], {.timeout = std::chrono::seconds(60),
                             .token = "0123456789abcdef",
                             .tell = [](const std::string&) { throw std::bad_alloc(); }});
  });
  stranger.join();
  EXPECT_EQ(thrown, "bad_alloc");
}

}  // namespace
}  // namespace reprise::distributed
