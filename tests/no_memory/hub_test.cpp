// The hub's threads where memory lacks once: the rank that it lacks on has that as its own error, and the others are told.
// labels: slow concurrency
// slow in tsan
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "reprise/distributed/hub/hub_client.h"
#include "reprise/distributed/hub/hub_server.h"
#include "reprise/distributed/hub/mac.h"
#include "reprise/tests/no_memory/failing_new.h"

namespace reprise::distributed {
namespace {

using namespace std::chrono_literals;

constexpr int ranks = 2;

HubClient::Options options_of(int rank, int port, const std::string& token) {
  return {.place = [=] { return Place{.ports = {port}}; },
          .job = "job",
          .token = token,
          .rank = rank,
          .ranks = ranks,
          .addresses = [](const std::string&) { return std::vector<std::string>(ranks, "somewhere"); },
          .timeout = 20s};
}

std::vector<std::unique_ptr<HubClient>> joined(const HubServer& server, const std::string& token) {
  std::vector<std::unique_ptr<HubClient>> clients(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      clients[size_t(rank)] = std::make_unique<HubClient>(options_of(rank, server.port(), token), [] {});
    });
  for (std::thread& thread : threads) thread.join();
  return clients;
}

bool is_bad_alloc(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const std::bad_alloc&) { return true; }
  return false;
}

// Lets one allocation fail that a thread of the hub makes, and says who has ended by that.
void expect_one_ended(int64_t k, const std::string& token) {
  HubServer server({.job = "job", .ranks = ranks, .token = token, .timeout = 20s});
  auto clients = joined(server, token);
  testing::fail_allocation(k, testing::Failing::one);
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (testing::failed_allocations() == 0 && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(5ms);  // this thread takes no memory
  testing::fail_no_allocation();
  ASSERT_GT(testing::failed_allocations(), 0) << "allocation " << k << " was not made";
  for (const auto& client : clients) ASSERT_TRUE(client->failure(10s)) << "allocation " << k;
  int ended = is_bad_alloc(server.own_error());
  const int at_fault = ended || is_bad_alloc(clients[0]->own_error()) ? 0 : 1;
  for (int rank = 0; rank < ranks; ++rank) {
    const HubClient& client = *clients[size_t(rank)];
    ended += is_bad_alloc(client.own_error());
    const Failure failure = *client.failure();
    EXPECT_EQ(failure.kind, FailureKind::left) << "allocation " << k << ": " << failure.message;
    EXPECT_EQ(failure.rank, at_fault) << "allocation " << k << ": " << failure.message;
    EXPECT_NE(failure.message.find("out of memory"), std::string::npos) << failure.message;
  }
  EXPECT_EQ(ended, 1) << "allocation " << k;
}

TEST(NoMemoryForTheHub, EndsItsRankAndIsToldOnTheOthers) {
  for (int64_t k = 0; k < 24 && !::testing::Test::HasFailure(); ++k) expect_one_ended(k, "");
}

TEST(NoMemoryForTheHub, EndsItsRankAlsoWhereFramesAreSealed) {
  for (int64_t k = 0; k < 24 && !::testing::Test::HasFailure(); ++k)
    expect_one_ended(k, has_mac() ? "0123456789abcdef" : "");
}

}  // namespace
}  // namespace reprise::distributed
