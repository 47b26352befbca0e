// A signal in each phase of a run: what was trained is saved, the exit code is 3, and the end comes soon.
// labels: end-to-end
#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

constexpr int all_signals[] = {SIGTERM, SIGINT, SIGHUP};

template <class Condition>
void wait_until(Program& program, Condition condition) {
  while (program.is_running() && !condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Whether the process has a handler for SIGTERM.
bool handles_signals(pid_t process) {
  std::ifstream status("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:")) return std::stoull(line.substr(7), nullptr, 16) >> (SIGTERM - 1) & 1;
  return false;
}

size_t steps_recorded(const std::string& run_folder) {
  std::ifstream log(run_folder + "/metrics.jsonl");
  size_t steps = 0;
  for (std::string line; std::getline(log, line);) steps += line.find("\"lr\"") != std::string::npos;
  return steps;
}

TEST(Signals, WhileLoadingEndTheRunAtOnceAndLeaveNothing) {
  TempFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  for (int signal : all_signals) {
    std::string command = "exec \"$0\"";
    for (const std::string& argument : train_arguments("-", folder / "run", 2))
      command += " '" + argument + "'";
    Program program({"-c", command + " <>" + folder / "pipe", testing::gpt_program()}, "", "/bin/bash");
    wait_until(program, [&] { return handles_signals(program.process()); });
    program.signal(signal);
    EXPECT_EQ(program.wait(), 3) << signal;
    EXPECT_NE(program.err().find("nothing to save"), std::string::npos) << program.err();
    EXPECT_FALSE(fs::exists(folder / "run"));
  }
}

// Sends a signal in an evaluation or sample after step 1 that would take minutes.
void expect_saved_and_stopped(const Arguments& more) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text(1 << 20)), out = folder / "run";
  for (int signal : all_signals) {
    Program program(train_arguments(data, out, 50, more));
    wait_until(program, [&] { return steps_recorded(out) >= 1; });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    program.signal(signal);
    EXPECT_EQ(program.wait(), 3) << signal << program.err();
    EXPECT_EQ(train::load_checkpoint(out, true).step, 1);
    EXPECT_NE(program.out().find("--resume"), std::string::npos) << program.out();
    fs::remove_all(out);
  }
}

TEST(Signals, WhileEvaluatingEndTheEvaluationAndSave) {
  expect_saved_and_stopped({"--eval-every", "1", "--eval-batches", "0", "--layers", "8", "--width", "64"});
}

TEST(Signals, WhileSamplingEndTheSampleAndSave) {
  expect_saved_and_stopped({"--sample-every", "1", "--sample-tokens", "100000000"});
}

TEST(Signals, WhileSamplingAtTheEndFindEverythingSaved) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), out = folder / "run";
  Program program(train_arguments(data, out, 2, {"--sample-tokens", "100000000"}));
  wait_until(program, [&] { return fs::exists(out + "/checkpoints/LATEST"); });
  EXPECT_TRUE(program.is_running()) << "the last step is saved before the sample";
  program.signal(SIGTERM);
  EXPECT_EQ(program.wait(), 3) << program.err();
  EXPECT_EQ(train::load_checkpoint(out, true).step, 2);
  EXPECT_NE(program.out().find("reprise-gpt eval --run " + out), std::string::npos) << program.out();
}

TEST(Signals, ACheckpointThatIsDueIsSavedBeforeTheSample) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), out = folder / "run";
  Program program(train_arguments(
      data, out, 9, {"--sample-every", "2", "--save-every", "2", "--sample-tokens", "100000000"}));
  wait_until(program, [&] { return fs::exists(out + "/checkpoints/LATEST"); });
  EXPECT_TRUE(program.is_running());
  EXPECT_EQ(train::load_checkpoint(out, true).step, 2);
}

}  // namespace
}  // namespace reprise::apps
