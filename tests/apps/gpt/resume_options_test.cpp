// What a run that goes on takes from its folder, what it may be given anew, and who may go on with it.
// labels: end-to-end
#include <fstream>

#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// Two runs with unusual options: one that never stopped, and one that was stopped after two steps of four.
class ResumeOptions : public ::testing::Test {
 protected:
  static constexpr int steps = 4;
  ResumeOptions() {
    data = folder.write("text", tiny_text());
    run(train_arguments(data, folder / "whole", steps, options));
    run(train_arguments(data, part, steps, with(options, {"--stop-after", "2"})));
  }
  void expect_exact() {
    expect_same_checkpoints(part, folder / "whole");
    EXPECT_EQ(measurements(part), measurements(folder / "whole"));
  }
  Arguments resume(const Arguments& more = {}) { return with({"train", "--out", part, "--resume"}, more); }

  TempFolder folder;
  std::string data, part = folder / "part";
  const Arguments options = {"--dropout", "0.1",     "--no-bias", "--lr",     "2e-3", "--beta1",
                             "0.8",       "--seed",  "7",         "--batch",  "3",    "--accumulate",
                             "2",         "--decay", "linear",    "--clip",   "0.5",  "--weight-decay",
                             "0.3",       "--ema",   "0.9",       "--prompt", "a b",  "--val-fraction",
                             "0.2"};
};

TEST_F(ResumeOptions, AloneItGoesOnExactlyWithTheOptionsOfTheRun) {
  std::ofstream(part + "/config.toml", std::ios::app) << "peer-timeout = 3\n";  // as runs were written once
  const std::string out = run(resume());
  for (const char* told : {"Memory: weights ", "; largest batch: "})
    EXPECT_NE(out.find(told), std::string::npos) << out;
  expect_exact();
  for (const char* line : {"lr = 0.002\n", "dropout = 0.1\n", "bias = false\n", "seed = 7\n"})
    EXPECT_NE(bytes_of_file(part + "/config.toml").find(line), std::string::npos) << line;
}

TEST_F(ResumeOptions, WhatChangesNoBitIsFreeAndKept) {
  fs::create_symlink(data, folder / "other-name");
  const Arguments samples = {
      "--sample-every",       "1",   "--sample-tokens", "5", "--samples", "2",   "--sample-seed", "3",
      "--temperature",        "0.5", "--top-k",         "9", "--top-p",   "0.9", "--min-p",       "0.1",
      "--repetition-penalty", "1.2"};
  run(resume(with({"--threads", "2", "--recompute", "full", "--save-every", "1", "--keep", "5",
                   "--eval-every", "2", "--lr", "0.002", "--data", folder / "other-name"},
                  samples)));
  expect_exact();
  EXPECT_NE(bytes_of_file(part + "/config.toml").find("recompute = 'full'"), std::string::npos);
  run(resume({"--steps", "6"}));
  EXPECT_EQ(train::load_checkpoint(part, true).step, 6);
}

TEST_F(ResumeOptions, WhatDiffersIsNamedWithBothValuesAndNothingIsTouched) {
  auto snapshot = [&] {
    std::string all;
    for (const auto& entry : fs::recursive_directory_iterator(part))
      if (entry.is_regular_file()) all += entry.path().string() + "\n" + bytes_of_file(entry.path());
    return all;
  };
  std::string before = snapshot();
  expect_refused(
      resume({"--lr", "0.1", "--seed", "8", "--batch", "2", "--beta1", "0.7", "--bias", "--min-lr", "0"}),
      {part, "--lr 0.002 (now 0.1)", "--seed 7 (now 8)", "--batch 3 (now 2)", "--beta1 0.8 (now 0.7)",
       "--bias false (now true)", "--min-lr 0.0001 (now 0)", "--change"});
  std::string config = folder.write("other.toml", "decay = \"cosine\"\nthreads = 1\n");
  expect_refused(resume({"--config", config}), {"--decay linear (now cosine)", "--change"});
  std::string other = folder.write("other", tiny_text(2000));
  expect_refused(resume({"--data", other}), {"--data " + data + " (now " + other + ")", "--change"});
  expect_refused(resume({"--change", "--width", "32"}), {"--width 16 (now 32)", "--init-from"});
  expect_refused(resume({"--change", "--ema", "0"}), {"--ema"});
  expect_refused({"train", "--resume"}, {"--out"});
  expect_refused({"train", "--data", data, "--change"}, {"--change", "--resume"});
  EXPECT_TRUE(snapshot() == before);
}

TEST_F(ResumeOptions, ChangeTakesTheNewOnesAndKeepsTheOldOnesBeside) {
  std::string before = bytes_of_file(part + "/config.toml");
  std::string out =
      run(resume({"--change", "--lr", "0.1", "--dropout", "0.3", "--batch", "1", "--stop-after", "1"}));
  EXPECT_NE(out.find("--lr 0.002 (now 0.1)"), std::string::npos) << out;
  EXPECT_EQ(bytes_of_file(part + "/config-until-step-00000002.toml"), before);
  EXPECT_NE(bytes_of_file(part + "/config.toml").find("dropout = 0.3"), std::string::npos);
  run(resume());  // goes on with the new ones
  EXPECT_EQ(train::load_checkpoint(part, true).step, steps);
  EXPECT_EQ(train::load_checkpoint(part, true).model.at("dropout"), "0.3");
}

TEST_F(ResumeOptions, DataThatChangedIsNoticed) {
  std::string text = tiny_text();
  text[100] = text[100] == 'a' ? 'b' : 'a';
  folder.write("text", text);
  expect_refused(resume(), {data, "1200 tokens to train on", "--change"});
  run(resume({"--change"}));
  EXPECT_EQ(train::load_checkpoint(part, true).step, steps);
}

TEST_F(ResumeOptions, AFinishedRunSaysHowToGoOn) {
  run(resume());
  expect_refused(resume(), {"step 4", "--steps"});
  expect_refused(train_arguments(data, part, steps), {"--out " + part, "--resume"});
}

TEST_F(ResumeOptions, ADamagedMetricsLogDoesNotStandInTheWay) {
  std::string log = bytes_of_file(part + "/metrics.jsonl");
  folder.write("part/metrics.jsonl", std::string(64, '\0') + "\n" + log + "\xff\xfe{\n");
  Program program(resume());
  EXPECT_EQ(program.wait(), 0) << program.err();
  EXPECT_NE(program.err().find("metrics.jsonl: 2 lines"), std::string::npos) << program.err();
  expect_exact();
}

TEST(ResumeConfig, OptionsThatLookLikeNumbersComeBackAsTheyWere) {
  TempFolder folder;
  folder.write("007", tiny_text());
  fs::path here = fs::current_path();
  fs::current_path(folder.path());
  Arguments arguments =
      train_arguments("007", "1e3/", 3, {"--warmup", "02", "--lr", "1.", "--prompt", "a b"});
  run(with(arguments, {"--stop-after", "1"}));
  run({"train", "--out", "1e3", "--resume"});
  run({"eval", "--run", "1e3"});
  fs::current_path(here);
}

// Killed before the first save: the folder is there, and no checkpoint.
TEST(ResumeBegun, ARunWithoutACheckpointStartsFromItsBeginning) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), part = folder / "part";
  run(train_arguments(data, folder / "whole", 4, {"--seed", "9"}));
  Arguments arguments = train_arguments(data, part, 4, {"--seed", "9"});
  run(with(arguments, {"--stop-after", "2"}));
  fs::remove_all(part + "/checkpoints");
  expect_refused(arguments, {"--out " + part, "before its first checkpoint", "--resume"});
  expect_refused({"train", "--out", part, "--resume", "--seed", "8"}, {"--seed 9 (now 8)"});
  std::string out = run({"train", "--out", part, "--resume"});
  EXPECT_NE(out.find("starts from its beginning"), std::string::npos) << out;
  expect_same_checkpoints(part, folder / "whole");
  EXPECT_EQ(measurements(part), measurements(folder / "whole"));
}

TEST(TwoProcesses, OnlyOneTrainsInAFolder) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), part = folder / "part";
  Program first(train_arguments(data, part, 1000000, {"--save-every", "1"}));
  while (first.is_running() && !train::has_checkpoint(part))
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  expect_refused({"train", "--out", part, "--resume"}, {part, "process ", "trains there"});
  run({"sample", "--run", part, "--sample-tokens", "2"});
  first.signal(SIGKILL);
  first.wait();
  run({"train", "--out", part, "--resume", "--stop-after", "1"});
}

TEST(TwoProcesses, OfSeveralThatWantAFolderOneGetsItAndTheOthersTheNext) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  fs::path here = fs::current_path();
  fs::current_path(folder.path());
  std::vector<std::unique_ptr<Program>> explicit_folder, next_free;
  for (int i = 0; i < 4; ++i) {
    explicit_folder.push_back(std::make_unique<Program>(train_arguments(data, "same", 2)));
    Arguments arguments = train_arguments(data, "", 2);
    arguments.erase(arguments.begin() + 3, arguments.begin() + 5);  // --out and its value
    next_free.push_back(std::make_unique<Program>(arguments));
  }
  int done = 0;
  for (auto& program : explicit_folder) done += program->wait() == 0;
  EXPECT_EQ(done, 1);
  for (auto& program : next_free) EXPECT_EQ(program->wait(), 0) << program->err();
  for (const char* name : {"runs/gpt", "runs/gpt-2", "runs/gpt-3", "runs/gpt-4"})
    EXPECT_EQ(train::load_checkpoint(name, true).step, 2) << name;
  fs::current_path(here);
}

}  // namespace
}  // namespace reprise::apps
