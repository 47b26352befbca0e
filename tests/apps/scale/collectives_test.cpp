// Collectives against closed forms, computed by hand, and against what nccl-tests have measured.
#include "reprise/apps/scale/collectives.h"

#include <gtest/gtest.h>

#include "reprise/tests/apps/scale/scenario.h"
#include "reprise/tests/support/errors.h"

namespace reprise::apps::scale {
namespace {

using namespace testing;

// Sums of a few doubles: rounding alone.
constexpr double rounding = 1e-12;

void expect_cost(const Cost& cost, double latency, double transfer) {
  EXPECT_NEAR(cost.latency, latency, rounding * latency);
  EXPECT_NEAR(cost.transfer, transfer, rounding * transfer);
}

TEST(ScaleCollectives, ARingSendsTwoPassesOfAllButAPart) {
  const Collectives four(plain_links(), place(4, 8), Reduce::ring);
  expect_cost(four.all_reduce(1e9), 6e-6, 0.015);       // 2 (n-1) hops of 1 us; 1.5 GB at 100 GB/s
  expect_cost(four.reduce_scatter(1e9), 3e-6, 0.0075);  // one pass
  expect_cost(four.all_gather(1e9), 3e-6, 0.0075);
}

TEST(ScaleCollectives, ARingLeavesANodeByAllOfItsNetworkCards) {
  const Collectives sixteen(plain_links(), place(16, 8), Reduce::ring);
  // 15 hops a pass, 2 of them between the two nodes; 2 x 15/16 GB at 8 x 10 GB/s
  expect_cost(sixteen.all_reduce(1e9), 2 * (13e-6 + 20e-6), 1.875 / 80);
  const Collectives four_nodes_of_one(plain_links(), place(4, 1), Reduce::ring);
  expect_cost(four_nodes_of_one.all_reduce(1e9), 60e-6, 0.15);  // each rank by its own card
}

TEST(ScaleCollectives, OursSendsARingsBytesWithinANodeInOneHopEach) {
  const Collectives eight(plain_links(), place(8, 8), Reduce::tree);
  expect_cost(eight.all_reduce(1e9), 2e-6, 0.0175);  // 2 x 7/8 GB at 100 GB/s
  expect_cost(eight.reduce_scatter(1e9), 1e-6, 0.00875);
  expect_cost(eight.all_reduce(1e9, 3), 2e-6, 3 * 0.00875 + 0.00875);  // three nodes go, one result comes
}

TEST(ScaleCollectives, OursSendsByEachRanksOwnCardBetweenNodes) {
  Links links = plain_links();
  links.message_seconds = 1e-6;
  const Collectives sixteen(links, place(16, 8), Reduce::tree);
  // 8/16 of a GB by a card of 10 GB/s, twice; a hop of 10 us and 8 messages of 1 us, twice
  expect_cost(sixteen.all_reduce(1e9), 36e-6, 0.1);
}

TEST(ScaleCollectives, TheKernelOfOurSumReadsAllPartsAndWritesOne) {
  Links links = plain_links();
  links.sum_bandwidth = 1e12;
  const Collectives four(links, place(4, 8), Reduce::tree);
  EXPECT_NEAR(four.reduce_scatter(1e9).transfer, 0.0075 + 1.25e-3, rounding);
}

// communication_bench --call tree on 2026-11-27: 25 MiB over Gloo between network namespaces, on links that tbf limits. It counts
// 1,514 bytes of the 1,538 that a packet takes on a line.
TEST(ScaleCollectives, OurSumsOverSlowNetworks) {
  struct Run {
    int ranks;
    double megabits, seconds;
  };
  for (const Run& run :
       {Run{2, 400, 0.553}, Run{2, 200, 1.114}, Run{2, 100, 2.348}, Run{4, 400, 0.866}, Run{4, 200, 1.753}}) {
    const Links links = gloo(1, run.megabits / 1000 * 1538 / 1514);
    const Cost cost = Collectives(links, place(run.ranks, 1), Reduce::tree).all_reduce(25 << 20);
    EXPECT_NEAR(100 * cost.seconds() / run.seconds, 100, 5) << run.ranks << " ranks, " << run.megabits;
  }
}

TEST(ScaleCollectives, NcclsTreeSendsAllBytesUpAndDown) {
  const Collectives thirty_two(plain_links(), place(32, 8), Reduce::nccl_tree);
  // up and down a chain of 7 hops and a tree of 4 nodes, 2 deep; 2 GB at 80 GB/s
  expect_cost(thirty_two.all_reduce(1e9), 2 * (7e-6 + 20e-6), 0.025);
}

TEST(ScaleCollectives, TheSwitchAddsWhatGoesThroughIt) {
  Links links = plain_links();
  links.nvls_share = 0.5;
  links.nvls_base = 25e-6;
  links.nvls_network_hop = 14e-6;
  expect_cost(Collectives(links, place(8, 8), Reduce::nvls).all_reduce(1e9), 25e-6, 9.0 / 8 / 50);
  // between two nodes a card has 1/8 of the bytes, twice: 0.025 s, more than the switch's 0.0225
  expect_cost(Collectives(links, place(16, 8), Reduce::nvls).all_reduce(1e9), 53e-6, 0.025);
  expect_error([] { Collectives(plain_links(), place(8, 8), Reduce::nvls); }, {"--reduce nvls", "plain"});
}

TEST(ScaleCollectives, TheQuickestProtocolIsTaken) {
  Links links = plain_links();
  links.ring = {{.base = 1e-6, .node_hop = 1e-6, .share = 0.5},
                {.base = 20e-6, .node_hop = 1e-6, .share = 1}};
  const Collectives two(links, place(2, 8), Reduce::ring);
  EXPECT_NEAR(two.all_reduce(1e3).seconds(), 1e-6 + 2e-6 + 2e-8, 1e-15);
  EXPECT_NEAR(two.all_reduce(1e9).seconds(), 20e-6 + 2e-6 + 0.01, 1e-12);
  links.ring[0].most_in_node = 1e9;
  EXPECT_NEAR(Collectives(links, place(2, 8), Reduce::ring).all_reduce(1e3).seconds(), 3e-6 + 1e-6, 1e-15);
}

TEST(ScaleCollectives, OneRankPaysNothing) {
  for (Reduce reduce : {Reduce::tree, Reduce::ring, Reduce::nccl_tree, Reduce::fast, Reduce::nvls}) {
    const Collectives one(nvlink4(8, 400), place(1, 8), reduce);
    EXPECT_EQ(
        one.all_reduce(1e9).seconds() + one.reduce_scatter(1e9).seconds() + one.all_gather(1e9).seconds(), 0);
  }
}

TEST(ScaleCollectives, FastIsTheQuickestOfNccls) {
  for (int ranks : {2, 8, 64, 4096})
    for (double bytes : {1e3, 1e6, 1e8}) {
      double best = 1e9;
      for (Reduce reduce : {Reduce::ring, Reduce::nccl_tree, Reduce::nvls})
        best =
            std::min(best, Collectives(nvlink4(8, 400), place(ranks, 8), reduce).all_reduce(bytes).seconds());
      EXPECT_EQ(Collectives(nvlink4(8, 400), place(ranks, 8), Reduce::fast).all_reduce(bytes).seconds(),
                best);
    }
}

TEST(ScaleCollectives, RanksFillNodes) {
  EXPECT_EQ(place(5, 8).nodes, 1);
  EXPECT_EQ(place(24, 8).nodes, 3);
  expect_error([] { place(12, 8); }, {"--ranks 12", "--per-node 8", "8 and 16"});
}

// nccl-tests on 8 H100 (issue 212 there): bus bandwidth 370 GB/s by ring and 480 by sums in the switch. The ring's is the
// constant itself; the switch's follows from it, NCCL's efficiency of 0.85, and the bytes on the wire.
TEST(ScaleCollectives, BusBandwidthOfEightH100IsThePublishedOne) {
  const double bytes = 16e9, on_the_bus = 2 * 7.0 / 8 * bytes;
  const Links links = nvlink4(8, 400);
  for (auto [reduce, published] : {std::pair{Reduce::ring, 370e9}, {Reduce::nvls, 480e9}}) {
    const double bus = on_the_bus / Collectives(links, place(8, 8), reduce).all_reduce(bytes).seconds();
    EXPECT_NEAR(100 * bus / published, 100, validated_bandwidth_percent) << bus;
  }
}

}  // namespace
}  // namespace reprise::apps::scale
