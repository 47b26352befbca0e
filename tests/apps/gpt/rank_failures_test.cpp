// Ranks that are stopped, asked what they do, or compute for long while another one dies: what the others say, and when.
// labels: end-to-end
#include <sys/prctl.h>

#include <map>
#include <regex>

#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/distributed/hub/socket.h"
#include "reprise/io/file.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto generous = 20s;  // for what takes 2 s where nothing else runs

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// True as soon as `condition` is.
template <class Condition>
bool comes(const Condition& condition) {
  for (const auto begin = Clock::now(); Clock::now() - begin < 50s; std::this_thread::sleep_for(5ms))
    if (condition()) return true;
  return false;
}

std::string free_port() {
  int port = 0;
  const distributed::Socket any = distributed::listen_on("127.0.0.1", {0}, port);
  return std::to_string(std::min(port, 65000));
}

struct RankFailures : ::testing::Test {
  void SetUp() override {
    if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
  Arguments arguments(const std::string& out, const Arguments& more = {"--eval-every", "0"}) const {
    Arguments all = {"--accumulate", "2", "--ranks", "2", "--peer-timeout", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data, folder / out, 1000000, all);
  }
  bool trains(const std::string& out) const {
    std::error_code none;
    return std::filesystem::file_size(folder / out + "/metrics.jsonl", none) > 0 && !none;
  }
  // The processes of the ranks, once they train.
  std::vector<pid_t> ranks_of(const Program& program, const std::string& out) const {
    EXPECT_TRUE(comes([&] { return trains(out); })) << program.err();
    const std::string name = std::to_string(program.process());
    std::ifstream in("/proc/" + name + "/task/" + name + "/children");
    std::vector<pid_t> all;
    for (pid_t child; in >> child;) all.push_back(child);
    EXPECT_EQ(all.size(), 2u);
    return all;
  }

  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());
};

TEST_F(RankFailures, RankThatIsStoppedIsSilent) {
  for (size_t stopped : {0u, 1u}) {
    const std::string out = "stopped" + std::to_string(stopped);
    Program program(arguments(out));
    const std::vector<pid_t> ranks = ranks_of(program, out);
    ASSERT_EQ(ranks.size(), 2u);
    kill(ranks[stopped], SIGSTOP);
    const std::string line = detail::join("[", 1 - stopped, "] reprise-gpt: rank ", stopped),
                      words = " is silent: no heartbeat for 1";
    EXPECT_TRUE(comes([&] { return has(program.err(), line) && has(program.err(), words); }))
        << program.err();
    kill(ranks[stopped], SIGCONT);
    EXPECT_EQ(program.wait(), 5) << program.err();
    EXPECT_TRUE(has(program.err(), detail::join("[", stopped, "] reprise-gpt: rank ", stopped)))
        << program.err();
    EXPECT_TRUE(has(program.err(), detail::join("\n[", 1 - stopped, "]   calls: ", folder / out,
                                                "/flight/rank-", 1 - stopped, ".jsonl\n")))
        << program.err();
    const std::string text = testing::run({"flight", folder / out});
    EXPECT_TRUE(has(text, "2 of 2 ranks have left a record\n")) << text;
    EXPECT_TRUE(has(text, "the calls that they have in common agree\n")) << text;
  }
}

TEST_F(RankFailures, RanksWriteTheirCallsWhenAsked) {
  Program program(arguments("asked"));
  const std::vector<pid_t> ranks = ranks_of(program, "asked");
  program.signal(SIGUSR1);
  const std::regex written("\\[([01])\\] calls: [^\n]*/asked/flight/rank-\\1\\.jsonl\n");
  EXPECT_TRUE(comes([&] {
    const std::string text = program.err();
    return std::distance(std::sregex_iterator(text.begin(), text.end(), written), std::sregex_iterator()) ==
           2;
  })) << program.err();
  const std::string text = testing::run({"flight", folder / "asked", "--trace", folder / "trace.json"});
  EXPECT_TRUE(has(io::read_file(folder / "trace.json"), R"("name":"rank 1")"));
  EXPECT_TRUE(has(text, "rank 1: SIGUSR1 asked for it\n")) << text;
  EXPECT_TRUE(has(text, "group world\n  rank 0: last call #")) << text;
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 3) << program.err();
}

// A rank of another launcher, whose variables the process inherits; no other one comes.
TEST_F(RankFailures, RankThatWaitsForOthersIsNotEndedByARequest) {
  const std::map<std::string, std::string> variables{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", free_port()}};
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  Program program(train_arguments(data, folder / "alone", 10, {"--accumulate", "2", "--timeout", "3"}));
  for (const auto& [name, value] : variables) unsetenv(name.c_str());
  const int port = std::stoi(variables.at("MASTER_PORT"));
  EXPECT_TRUE(comes([&] { return bool(distributed::connect_to("127.0.0.1", port)); })) << program.err();
  program.signal(SIGUSR1);
  EXPECT_EQ(program.wait(), 4) << program.err();
  EXPECT_TRUE(has(program.err(), "not all of 2 ranks came within 3 s; those that did: rank 0 (pid "))
      << program.err();
}

// Rank 0 writes a sample for many seconds, and makes no call meanwhile.
TEST_F(RankFailures, RankThatComputesEndsAllTheSame) {
  Program program(arguments("computes", {"--sample-every", "1", "--sample-tokens", "10000000", "--layers",
                                         "4", "--width", "128", "--context", "64"}));
  const std::vector<pid_t> ranks = ranks_of(program, "computes");
  ASSERT_EQ(ranks.size(), 2u);
  std::this_thread::sleep_for(200ms);
  kill(ranks[1], SIGKILL);
  const auto begin = Clock::now();
  EXPECT_EQ(program.wait(), 4) << program.err();
  EXPECT_LT(Clock::now() - begin, generous);
  EXPECT_TRUE(
      std::regex_search(program.err(), std::regex("\\[0\\] reprise-gpt: rank 1 \\(pid [0-9]+\\) died")))
      << program.err();
  EXPECT_TRUE(has(program.err(), "\n[0]   at computation of group world, after 2.")) << program.err();
}

// They become children of this process, which is told how they ended.
TEST_F(RankFailures, RanksOfALauncherThatIsKilledSaveAndEnd) {
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  Program program(arguments("left"));
  const std::vector<pid_t> ranks = ranks_of(program, "left");
  ASSERT_EQ(ranks.size(), 2u);
  const auto begin = Clock::now();
  program.signal(SIGKILL);
  EXPECT_EQ(program.wait(), 128 + SIGKILL);
  for (const pid_t rank : ranks) {
    int status = 0;
    EXPECT_TRUE(comes([&] { return waitpid(rank, &status, WNOHANG) == rank; })) << "rank of pid " << rank;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 3) << status;
  }
  prctl(PR_SET_CHILD_SUBREAPER, 0);
  EXPECT_LT(Clock::now() - begin, generous);
  EXPECT_GE(train::load_checkpoint(folder / "left", true).step, 1);
}

TEST_F(RankFailures, FlightSaysWhatIsMissing) {
  expect_refused({"flight", folder / "nothing"}, {"flight: no record of calls in", "SIGUSR1"});
}

}  // namespace
}  // namespace reprise::apps
