// A connection between two ranks whose other end has not the proof that the hub has given its rank.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/hub/frame_stream.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/child.h"

namespace reprise::distributed {
namespace {

using namespace std::chrono_literals;

// Stands between rank 1 of two and the hub, and changes a field of the welcome. Without a token it is not sealed: the fields are two
// addresses, two proofs to send and two to expect.
class WelcomeChanger {
 public:
  WelcomeChanger(int hub_port, size_t field) : hub_port_(hub_port), field_(field) {
    listener_ = listen_on("127.0.0.1", {0}, port_);
  }
  void start() {
    thread_ = std::thread([this] { run(); });
  }
  ~WelcomeChanger() {
    is_over_ = true;
    thread_.join();
  }
  int port() const { return port_; }

 private:
  void run() {
    while (!is_over_)
      if (wait_readable(listener_, 10ms)) pass_on(accept_from(listener_));
  }
  void pass_on(Socket socket) {
    FrameStream rank(std::move(socket)), hub(connect_to("127.0.0.1", hub_port_));
    while (hub && !is_over_) {
      if (wait_readable(hub.socket(), 5ms) && !hub.receive()) return;
      while (auto frame = hub.next()) {
        if (frame->kind == FrameKind::welcome) frame->fields.at(field_).back() ^= 1;
        rank.send(*frame);
      }
      if (!wait_readable(rank.socket(), 5ms)) continue;
      const std::string bytes = receive_some(rank.socket());
      if (bytes.empty() || !send_all(hub.socket(), bytes)) return;
    }
  }

  const int hub_port_;
  const size_t field_;
  int port_ = 0;
  Socket listener_;
  std::atomic<bool> is_over_{false};
  std::thread thread_;
};

// How two ranks joined, of which rank 1 was given a welcome that is changed there.
std::vector<std::string> outcomes_with_changed(size_t field) {
  auto places = testing::places_of(2);
  { const Socket any = listen_on("127.0.0.1", {0}, places[0].port); }
  WelcomeChanger between(places[0].port, field);
  places[1].port = between.port();
  const auto meet = [](ProcessGroup& group) {
    group.barrier();
    return "joined";
  };
  testing::StartedPlaces ranks(places, meet, {}, std::vector(2, JoinOptions{.timeout = 60s}));
  between.start();
  return ranks.outcomes();
}

class PairProof : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo() || !testing::children_have_threads)
      GTEST_SKIP() << "needs Gloo, and children that start threads";
  }
};

TEST_F(PairProof, IsWhatAStrangerLacksAndAllAreTold) {
  const std::string message = "refused: join: a stranger took the connection to rank ";
  const auto told = [&](size_t field, int rank) {
    for (const std::string& outcome : outcomes_with_changed(field))
      EXPECT_TRUE(outcome.starts_with(detail::join(message, rank))) << outcome;
  };
  told(2, 1);  // what rank 1 proves itself to rank 0 by
  told(4, 0);  // what it expects of rank 0
}

// So it is the proof that ends the join, and not who stands between.
TEST_F(PairProof, OfARankToItselfIsNotAsked) {
  for (const size_t field : {3, 5})
    EXPECT_EQ(outcomes_with_changed(field), (std::vector<std::string>{"joined", "joined"}));
}

}  // namespace
}  // namespace reprise::distributed
