// The names of machines: each rank says its own, which the others are told where they differ. They are a stranger's text.
#include "reprise/distributed/hub/host_name.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <thread>

#include "reprise/distributed/hub/hub_client.h"
#include "reprise/distributed/hub/hub_server.h"
#include "reprise/tests/distributed/mute_rank.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::MuteRank;
using namespace std::chrono_literals;

HubServer::Options server_options(int ranks) { return {.job = "job", .ranks = ranks, .timeout = 20s}; }

const std::string pid = std::to_string(getpid());

// Ranks 1, 2 ... on machines of these names.
std::vector<std::unique_ptr<MuteRank>> joined(int port, const std::vector<std::string>& hosts) {
  std::vector<std::unique_ptr<MuteRank>> ranks(hosts.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < hosts.size(); ++i)
    threads.emplace_back([&, i] {
      ranks[i] = std::make_unique<MuteRank>(port, int(i) + 1, int(hosts.size()) + 1, "x", hosts[i]);
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& rank : ranks) EXPECT_EQ(rank->wrong, "");
  return ranks;
}

// What rank 0 hears where rank 1 dies, and what all were told of rank 0 as they were called.
struct Told {
  std::string death, of_rank_0;
};

Told told_where_rank_1_dies(const std::vector<std::string>& hosts) {
  HubServer server(server_options(int(hosts.size()) + 1));
  const int port = server.port(), ranks = int(hosts.size()) + 1;
  std::unique_ptr<HubClient> first;
  std::thread thread([&] {
    first = std::make_unique<HubClient>(
        HubClient::Options{
            .place = [=] { return Place{.ports = {port}}; },
            .job = "job",
            .ranks = ranks,
            .addresses = [=](const std::string&) { return std::vector<std::string>(size_t(ranks), "x"); },
            .timeout = 20s},
        [] {});
  });
  auto others = joined(port, hosts);
  thread.join();
  Told told;
  for (const auto& one : others) told.of_rank_0 = one->called_with.at(0);
  others[0].reset();
  const auto failure = first->failure(10s);
  told.death = failure ? failure->message : "nothing";
  return told;
}

TEST(HostNames, AreToldWhereTheyDiffer) {
  const std::string own = shown_host(host_name());
  ASSERT_NE(own, "");
  const Told told = told_where_rank_1_dies({"b", "c"});
  EXPECT_EQ(told.death, "rank 1 (host b, pid " + pid + ") died: its connection closed without a goodbye");
  EXPECT_EQ(told.of_rank_0, "rank 0 (host " + own + ", pid " + pid + ")");
}

TEST(HostNames, OfOneMachineAreNotTold) {
  const Told told = told_where_rank_1_dies({host_name(), host_name()});
  EXPECT_EQ(told.death, "rank 1 (pid " + pid + ") died: its connection closed without a goodbye");
  EXPECT_EQ(told.of_rank_0, "rank 0 (pid " + pid + ")");
}

TEST(HostNames, WriteNothingToATerminalButLettersAndAFewSigns) {
  EXPECT_EQ(told_where_rank_1_dies({"b\x1b[31m\r\n) died"}).death,
            "rank 1 (host b??31m????died, pid " + pid + ") died: its connection closed without a goodbye");
  EXPECT_EQ(told_where_rank_1_dies({std::string(longest_host, '\0')}).death,
            "rank 1 (host " + std::string(64, '?') + "..., pid " + pid +
                ") died: its connection closed without a goodbye");
  EXPECT_EQ(shown_host("node-07_a.cluster.example"), "node-07_a.cluster.example");
  EXPECT_EQ(shown_host("caf\xc3\xa9"), "caf??");
  EXPECT_EQ(shown_host(""), "");
}

// Its connection ends, and the place stays free for the rank that says less.
TEST(HostNames, LongerThanAnyMachinesEndTheirConnection) {
  for (const size_t size : {longest_host + 1, size_t(10000), longest_frame - 200}) {
    HubServer server(server_options(2));
    const MuteRank stranger(server.port(), 1, 2, "x", std::string(size, 'x'));
    EXPECT_EQ(stranger.wrong, "the hub has hung up");
    std::thread other([&] {
      const MuteRank first(server.port(), 0, 2, "x", "a");
      EXPECT_EQ(first.wrong, "");
    });
    const MuteRank second(server.port(), 1, 2, "x", std::string(longest_host, 'x'));
    EXPECT_EQ(second.wrong, "");
    other.join();
  }
}

}  // namespace
}  // namespace reprise::distributed
