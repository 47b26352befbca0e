// TLS between ranks: what is asked for and cannot be had is an Error; and where Gloo has it, that nothing goes in the open, that
// others are not let in, and that nothing hangs.
// labels: slow
#include "reprise/distributed/tls_files.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netpacket/packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "reprise/distributed/hub/socket.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/child.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::places_of;
using testing::run_places;
using namespace std::chrono_literals;

const TlsFiles somewhere{.cert = "cert.pem", .key = "key.pem", .ca = "ca.pem"};

TEST(Tls, NeedsAllOfItsFiles) {
  check_tls({});
  expect_error([] { check_tls({.cert = "cert.pem"}); }, "--tls-cert without --tls-key, --tls-ca");
  expect_error([] { check_tls({.cert = "cert.pem", .ca = "ca.pem"}); },
               "--tls-cert, --tls-ca without --tls-key");
}

TEST(Tls, IsAnErrorWhereGlooHasNone) {
  if (has_gloo_tls()) GTEST_SKIP() << "this build's Gloo has TLS";
  expect_error([] { check_tls(somewhere); }, "--tls-cert, --tls-key, --tls-ca",
               "this build's Gloo has no TLS", "private network or WireGuard");
  if (has_gloo())
    expect_error([] { connect_gloo({.ranks = 2, .port = 20000}, {.timeout = 1s, .tls = somewhere}); },
                 "this build's Gloo has no TLS");
}

TEST(Tls, IsAnErrorWhereNothingGoesByGloo) {
  expect_error([] { make_thread_groups(2, {.tls = somewhere}); }, "--tls-cert",
               "threads have no connections");
  expect_error([] { ProcessGroup::alone({.tls = somewhere}); }, "--tls-cert", "one rank has no connections");
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("MASTER_PORT", "20000", 1);
  expect_error([] { ProcessGroup::join({.tls = somewhere, .device = Device::cuda()}); }, "--tls-cert", "NCCL",
               "does not encrypt");
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
}

// Certificates of a job, and of another one.
class TlsRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_gloo_tls() || !testing::children_have_threads)
      GTEST_SKIP() << "needs a Gloo with TLS, and children that start threads";
    if (!make_job("job") || !make_job("other")) GTEST_SKIP() << "needs openssl";
  }

  bool make_job(const std::string& job) const {
    const std::string at = "cd '" + folder_.path() + "' && ", quiet = " 2> /dev/null";
    const std::string key = " -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=";
    const auto run = [&](const std::string& line) { return std::system((at + line + quiet).c_str()) == 0; };
    return run("openssl req -x509 -days 2 -keyout " + job + "-ca.key -out " + job + "-ca.pem" + key + job +
               "-signer") &&
           run("openssl req -new -keyout " + job + ".key -out " + job + ".csr" + key + "rank") &&
           run("openssl x509 -req -days 2 -in " + job + ".csr -CA " + job + "-ca.pem -CAkey " + job +
               "-ca.key -CAcreateserial -out " + job + ".pem");
  }

  TlsFiles files(const std::string& job, const std::string& ca) const {
    return {
        .cert = folder_ / (job + ".pem"), .key = folder_ / (job + ".key"), .ca = folder_ / (ca + "-ca.pem")};
  }

  testing::TempFolder folder_;
};

std::string sums_of(ProcessGroup& group) {
  for (const int64_t count : {1, 1000, 1 << 22}) {  // the last one is more than sockets hold
    Tensor x = Tensor::zeros({count});
    x.fill_(float(group.rank() + 1));
    group.all_reduce(x).wait();
    const float sum = float(group.size() * (group.size() + 1)) / 2;
    if (x.to_vector<float>().front() != sum || x.to_vector<float>().back() != sum) return "another sum";
  }
  group.barrier();
  return "";
}

TEST_F(TlsRanks, HaveTheirSums) {
  for (const int ranks : {2, 4}) {
    const auto wrong =
        run_places(places_of(ranks), sums_of, {}, JoinOptions{.timeout = 30s, .tls = files("job", "job")});
    EXPECT_EQ(wrong, std::vector<std::string>(size_t(ranks)));
  }
}

TEST_F(TlsRanks, NameAFileThatIsNone) {
  const auto expect = [](const TlsFiles& given, const std::string& option, const std::string& path,
                         const std::string& reason) {
    expect_error([&] { check_tls(given); }, option + " \"" + path + "\"", reason);
  };
  const TlsFiles good = files("job", "job");
  const std::string none = folder_ / "none.pem", text = folder_.write("text.pem", "words");
  check_tls(good);
  expect({none, good.key, good.ca}, "--tls-cert", none, "No such file");
  expect({good.cert, none, good.ca}, "--tls-key", none, "No such file");
  expect({good.cert, good.key, folder_.path()}, "--tls-ca", folder_.path(), "no regular file");
  expect({text, good.key, good.ca}, "--tls-cert", text, "OpenSSL does not take it");
  expect({good.cert, text, good.ca}, "--tls-key", text, "OpenSSL does not take it");
  expect({good.cert, good.key, text}, "--tls-ca", text, "OpenSSL does not take it");
  const std::string other = files("other", "job").key;
  expect({good.cert, other, good.ca}, "--tls-key", other, "OpenSSL does not take it");
}

// A rank of another signer, and one that trusts another: neither is let in, by either side, and no one waits for it.
TEST_F(TlsRanks, OfAnotherSignerAreNotLetIn) {
  for (const int stranger : {0, 1, 2})
    for (const TlsFiles& strange : {files("other", "job"), files("job", "other"), files("other", "other")}) {
      std::vector<JoinOptions> joins(3, {.timeout = 60s, .tls = files("job", "job")});
      joins[size_t(stranger)].tls = strange;
      const auto begin = Clock::now();
      const auto wrong = run_places(places_of(3), sums_of, {.timeout = 60s}, joins);
      EXPECT_LT(Clock::now() - begin, 30s) << stranger;
      for (const std::string& one : wrong)
        EXPECT_TRUE(one.starts_with("transport: ") || one.starts_with("died: ") || one.starts_with("left: "))
            << stranger << ": " << one;
      EXPECT_NE((wrong[0] + wrong[1] + wrong[2]).find("--tls-cert must be signed by"), std::string::npos)
          << wrong[0];
    }
}

TEST_F(TlsRanks, AreNamedWhereOneIsKilled) {
  for (int victim = 0; victim < 3; ++victim)
    for (const int64_t count : {1, 1 << 20}) {
      const auto body = [&](ProcessGroup& group) -> std::string {
        Tensor x = Tensor::zeros({count});
        try {
          for (int call = 0; call < 1000; ++call) {
            if (call == 7 && group.rank() == victim) raise(SIGKILL);
            group.all_reduce(x).wait();
          }
        } catch (const DistributedError& error) {
          return error.kind() == FailureKind::died && error.rank() == victim ? "named" : error.what();
        }
        return "no error";
      };
      const auto wrong = run_places(places_of(3), body, {.timeout = 60s},
                                    JoinOptions{.timeout = 30s, .tls = files("job", "job")});
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(wrong[size_t(rank)], rank == victim ? "signal 9" : "named") << victim << ", " << count;
    }
}

TEST_F(TlsRanks, AreToldWhereOneLeavesEarly) {
  const auto body = [](ProcessGroup& group) -> std::string {
    group.barrier();
    if (group.rank() == 1) return "";
    try {
      group.barrier();
    } catch (const DistributedError& error) { return std::string(name_of(error.kind())); }
    return "no error";
  };
  const auto begin = Clock::now();
  const auto wrong = run_places(places_of(2), body, {.timeout = 60s},
                                JoinOptions{.timeout = 30s, .tls = files("job", "job")});
  EXPECT_EQ(wrong, (std::vector<std::string>{"left", ""}));
  EXPECT_LT(Clock::now() - begin, 30s);
}

// Reads along on loopback for as long as it lives.
class Listener {
 public:
  explicit Listener(std::string wanted)
      : wanted_(std::move(wanted)), socket_(::socket(AF_PACKET, SOCK_DGRAM, htons(ETH_P_ALL))) {
    sockaddr_ll at{};
    at.sll_family = AF_PACKET;
    at.sll_protocol = htons(ETH_P_ALL);
    at.sll_ifindex = int(if_nametoindex("lo"));
    const int size = 1 << 26;
    if (!socket_ || bind(socket_.fd(), reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0) return;
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
    listens_ = true;
    thread_ = std::thread([this] { listen(); });
  }
  ~Listener() { stop(); }
  /// Hears what has been sent so far, and no more.
  void stop() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }
  bool listens() const { return listens_; }
  int64_t bytes() const { return bytes_; }
  bool heard() const { return heard_; }

 private:
  void listen() {
    std::string packet(1 << 17, '\0');
    Clock::time_point end = Clock::time_point::max();  // others may send for ever
    while (Clock::now() < end) {
      if (is_over_ && end == Clock::time_point::max()) end = Clock::now() + 10s;
      if (!wait_readable(socket_, 20ms)) {
        if (is_over_) return;
        continue;
      }
      const ssize_t n = recv(socket_.fd(), packet.data(), packet.size(), 0);
      if (n <= 0) continue;
      bytes_ += n;
      if (std::string_view(packet).substr(0, size_t(n)).find(wanted_) != std::string_view::npos)
        heard_ = true;
    }
  }

  const std::string wanted_;
  Socket socket_;
  bool listens_ = false;
  std::atomic<bool> is_over_{false}, heard_{false};
  std::atomic<int64_t> bytes_{0};
  std::thread thread_;
};

TEST_F(TlsRanks, SendNothingThatCanBeReadOnTheWay) {
  const std::string secret = "weights that nobody else is to see, " + std::to_string(getpid());
  const auto body = [&](ProcessGroup& group) -> std::string {
    std::vector<float> values(20000);
    if (group.rank() == 0)
      for (size_t i = 0; i < values.size() * sizeof(float); ++i)
        reinterpret_cast<char*>(values.data())[i] = secret[i % secret.size()];
    Tensor x = Tensor::from<float>(values, {int64_t(values.size())});
    group.broadcast(x, 0).wait();
    group.gather_text(secret);
    return std::string_view(reinterpret_cast<const char*>(x.data<float>()), secret.size()) == secret
               ? ""
               : "other bytes";
  };
  for (const bool is_open : {true, false}) {
    Listener listener(secret);
    if (!listener.listens()) GTEST_SKIP() << "needs the right to listen on loopback";
    const TlsFiles tls = is_open ? TlsFiles() : files("job", "job");
    const auto wrong = run_places(places_of(2), body, {}, JoinOptions{.timeout = 30s, .tls = tls});
    EXPECT_EQ(wrong, std::vector<std::string>(2));
    listener.stop();
    EXPECT_GT(listener.bytes(), 80000);
    EXPECT_EQ(listener.heard(), is_open);
  }
}

}  // namespace
}  // namespace reprise::distributed
