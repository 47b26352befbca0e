// What calls cost: times that overlap count once, waits of the computation alone are exposed, and bytes are those that are sent.
// labels: concurrency
#include "reprise/distributed/communication.h"

#include <gtest/gtest.h>

#include <thread>

#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/tests/distributed/ranks.h"

namespace reprise::distributed {
namespace {

using namespace std::chrono_literals;
using testing::Ranks;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Bounds that hold however slow the machine is: the clock is read before and after.
TEST(BusyTime, CountsWhatOverlapsOnce) {
  BusyTime time;
  EXPECT_EQ(time.seconds(), 0);
  const double before = now();
  std::optional<BusyTime::Scope> first(time), second(time);
  const double begun = now();
  std::this_thread::sleep_for(2ms);
  first.reset();
  std::this_thread::sleep_for(2ms);
  const double present = now();
  EXPECT_GE(time.seconds(), present - begun) << "while one goes on";
  second.reset();
  const double after = now(), counted = time.seconds();
  EXPECT_GE(counted, present - begun);
  EXPECT_LE(counted, after - before);
  std::this_thread::sleep_for(2ms);
  EXPECT_EQ(time.seconds(), counted) << "while none goes on";
}

TEST(Communication, ExposesTheTimeInWhichTheComputationWaits) {
  auto groups = make_thread_groups(2);
  std::thread late([&] {
    while (groups[0]->communication().exposed_seconds == 0) std::this_thread::sleep_for(1ms);
    groups[1]->all_reduce(Tensor::zeros({3})).wait();
  });
  const double before = now();
  const Work work = groups[0]->all_reduce(Tensor::zeros({3}));
  const double asked = now();
  std::thread another([&] { work.synchronize(); });
  work.wait();
  another.join();
  const double after = now();
  late.join();
  const Communication cost = groups[0]->communication();
  EXPECT_GT(cost.exposed_seconds, 0);
  EXPECT_LE(cost.exposed_seconds, after - asked) << "two threads waited at once";
  EXPECT_GT(cost.seconds, 0);
  EXPECT_LE(cost.seconds, after - before);
  for (int again = 0; again < 3; ++again) work.wait();
  EXPECT_EQ(groups[0]->communication().exposed_seconds, cost.exposed_seconds) << "it was done";
}

// By the definitions of the collectives; parts are whole cache lines.
TEST(Communication, CountsThePayloadThatThisRankSends) {
  testing::expect_ranks_well(Ranks::threads, 4, [](ProcessGroup& group) -> std::string {
    int64_t before = 0;
    std::string wrong;
    auto expect = [&](const char* what, int64_t bytes) {
      const int64_t now = group.communication().bytes;
      if (now - before != bytes)
        wrong += detail::join(what, ": ", now - before, " bytes, want ", bytes, "; ");
      before = now;
    };
    const Tensor x = Tensor::zeros({64});  // a line for each rank
    group.all_reduce(x).wait();
    expect("all_reduce", 2 * 3 * 64);
    group.ring_sum(x).wait();
    expect("ring_sum", 2 * 3 * 64);
    group.all_gather(Tensor::zeros({40}), Tensor::zeros({10})).wait();
    expect("all_gather", 3 * 40);
    group.reduce_scatter(Tensor::zeros({16}), x).wait();
    expect("reduce_scatter", 3 * 64);
    group.ring_scatter(Tensor::zeros({16}), x).wait();
    expect("ring_scatter", 3 * 64);
    group.sum_nodes(x, {Tensor::zeros({64}), Tensor::zeros({64})}, 12).wait();
    expect("sum_nodes, two nodes per rank", 2 * 3 * 64 + 3 * 64);
    auto pair = group.subgroup({group.rank() / 2 * 2, group.rank() / 2 * 2 + 1}, "pair");
    pair->broadcast(x, 0).wait();
    expect("broadcast in a subgroup", group.rank() % 2 == 0 ? 256 : 0);
    return wrong;
  });
}

}  // namespace
}  // namespace reprise::distributed
