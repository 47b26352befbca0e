// A launcher whose ranks do not end: how they are asked, and killed.
// labels: slow
#include "reprise/apps/common/launch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/child.h"

namespace reprise::apps {
namespace {

using namespace std::chrono_literals;

constexpr const char* folder_variable = "REPRISE_TEST_FOLDER";

void make_file(const char* name) { ::close(::open(name, O_CREAT | O_WRONLY, 0600)); }

// Rank 1 notes that it was asked to end, and goes on; rank 0 fails as soon as rank 1 does so.
[[noreturn]] void be_rank(const std::string& rank) {
  alarm(testing::child_seconds);
  if (chdir(std::getenv(folder_variable)) != 0) _exit(1);
  if (rank == "1") {
    std::signal(SIGTERM, [](int) { make_file("asked"); });
    make_file("ready");
  }
  while (rank == "1" || !std::filesystem::exists("ready")) std::this_thread::sleep_for(5ms);
  _exit(7);
}

// The launcher starts this very test again as its ranks.
int launch(const std::string& standard_error, const TimesToEnd& times,
           const std::string& test = "Launch.AsksARankThatDoesNotEndAndKillsIt") {
  ::dup2(::open(standard_error.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
  ::dup2(::open("/dev/null", O_WRONLY), STDOUT_FILENO);
  TrainingOptions options;
  options.ranks = 2;
  std::string program = "ranks", filter = "--gtest_filter=" + test;
  char* argv[] = {program.data(), filter.data(), nullptr};
  return run_as_ranks("launcher", options, argv, times).value_or(1);
}

TEST(Launch, AsksARankThatDoesNotEndAndKillsIt) {
  if (const char* rank = std::getenv("REPRISE_RANK")) be_rank(rank);
  const testing::TempFolder folder;
  const std::string standard_error = folder / "err";
  const TimesToEnd times{.by_themselves = 300ms, .asked = 400ms};
  setenv(folder_variable, (folder / ".").c_str(), 1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(testing::outcome_of_child([&] { return launch(standard_error, times); }), "exit 7");
  const auto seconds = std::chrono::steady_clock::now() - begin;
  unsetenv(folder_variable);
  EXPECT_GE(seconds, times.by_themselves + times.asked);
  EXPECT_LT(seconds, 20s) << "where nothing else runs it takes 0.8 s";
  EXPECT_TRUE(std::filesystem::exists(folder / "asked")) << "SIGTERM comes first";
  std::ifstream in(standard_error);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_TRUE(text.starts_with("launcher: rank 1 (pid ")) << text;
  EXPECT_NE(text.find(" was killed by signal 9, "), std::string::npos) << text;
}

// Rank 0 does not listen to signals yet; rank 1 fails as soon as it hears of one, as a rank does whose peer has gone.
[[noreturn]] void be_rank_that_waits(const std::string& rank) {
  alarm(testing::child_seconds);
  if (chdir(std::getenv(folder_variable)) != 0) _exit(1);
  if (rank == "1") std::signal(SIGTERM, [](int) { _exit(4); });
  make_file(("ready" + rank).c_str());
  while (true) std::this_thread::sleep_for(5ms);
}

TEST(Launch, OfRanksThatASignalEndedEarlyIsInterrupted) {
  if (const char* rank = std::getenv("REPRISE_RANK")) be_rank_that_waits(rank);
  const testing::TempFolder folder;
  const std::string standard_error = folder / "err";
  setenv(folder_variable, (folder / ".").c_str(), 1);
  const pid_t launcher = testing::fork_at_rest();
  if (launcher == 0) {
    alarm(testing::child_seconds);
    std::_Exit(launch(standard_error, {.by_themselves = 20s, .asked = 20s},
                      "Launch.OfRanksThatASignalEndedEarlyIsInterrupted"));
  }
  while (!std::filesystem::exists(folder / "ready0") || !std::filesystem::exists(folder / "ready1"))
    std::this_thread::sleep_for(5ms);
  kill(launcher, SIGTERM);
  EXPECT_EQ(testing::outcome_of(launcher), "exit 3");
  unsetenv(folder_variable);
  EXPECT_EQ(std::filesystem::file_size(standard_error), 0u)
      << "a rank that the user's signal ends is none that was killed";
}

}  // namespace
}  // namespace reprise::apps
