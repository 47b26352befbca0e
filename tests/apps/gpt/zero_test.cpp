// --zero, --wire and --resume auto: what ranks share changes no bit, and a run goes on or begins by itself.
// not in asan: Zero.StagesHaveTheBitsOfOneProcess
// labels: end-to-end
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;

struct Zero : ::testing::Test {
  void SetUp() override {
    if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
  // 6 steps of four micro-batches of a model whose weights are several pieces.
  Arguments arguments(const std::string& out, const Arguments& more) const {
    Arguments all = {"--width", "160", "--dropout", "0.1", "--accumulate", "4"};
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data, folder / out, 6, all);
  }
  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());
};

TEST_F(Zero, StagesHaveTheBitsOfOneProcess) {
  const std::vector<Arguments> cases = {{"--recompute", "full"},
                                        {"--ema", "0.9", "--precision", "f16"},
                                        {"--precision", "bf16-pure", "--moments", "u8", "--ema", "0.9"}};
  for (size_t c = 0; c < cases.size(); ++c) {
    const std::string one = "one" + std::to_string(c);
    testing::run(arguments(one, cases[c]));
    for (const char* stage : {"1", "2", "3"}) {
      const std::string out = std::string(stage) + " of " + std::to_string(c);
      Arguments more = {"--ranks", "2", "--zero", stage};
      more.insert(more.end(), cases[c].begin(), cases[c].end());
      const std::string text = testing::run(arguments(out, more));
      EXPECT_NE(text.find(std::string("ZeRO stage ") + stage), std::string::npos) << text;
      expect_same_checkpoints(folder / out, folder / one);
      EXPECT_EQ(measurements(folder / out), measurements(folder / one)) << out;
    }
  }
}

TEST_F(Zero, GoesOnAtAnotherStageAndCount) {
  testing::run(arguments("whole", {}));
  testing::run(arguments("part", {"--stop-after", "2"}));
  testing::run(
      {"train", "--out", folder / "part", "--resume", "--ranks", "4", "--zero", "2", "--stop-after", "2"});
  testing::run(
      {"train", "--out", folder / "part", "--resume", "--ranks", "2", "--zero", "3", "--stop-after", "1"});
  testing::run({"train", "--out", folder / "part", "--resume"});
  expect_same_checkpoints(folder / "part", folder / "whole");
}

// What ranks have written in a file each, as one process writes it.
TEST_F(Zero, IsConsolidated) {
  testing::run(arguments("one", {}));
  testing::run(arguments("two", {"--ranks", "2", "--zero", "2"}));
  const std::string out = folder / "whole";
  testing::run({"consolidate", folder / "two", "--out", out});
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "manifest.json"})
    EXPECT_TRUE(bytes_of_file(out + "/" + name) ==
                bytes_of_file(newest_checkpoint(folder / "one") + "/" + name))
        << name;
  expect_refused({"consolidate", folder / "two", "--out", out}, {"consolidate: ", out, "is there already"});
  expect_refused({"consolidate", folder / "none", "--out", folder / "new"}, {"none", "no such run"});
  expect_refused({"consolidate", folder / "two"}, {"--out is required"});
}

TEST_F(Zero, OfOneRankIsANote) {
  const std::string text = testing::run(arguments("one", {"--zero", "2"}));
  EXPECT_NE(text.find("Ranks: one, which has nothing to share: --zero 2 is as 0"), std::string::npos) << text;
}

TEST_F(Zero, WhatDoesNotFitIsRefused) { expect_refused(arguments("a", {"--zero", "4"}), {"--zero", "4"}); }

// 8 blocks of 198 thousand weights, in steps that are little else.
struct SharedSteps : Zero {
  Arguments deep(const std::string& out, const Arguments& more) const {
    Arguments all = more;
    for (const auto& [option, value] :
         std::vector<std::pair<std::string, std::string>>{{"--layers", "8"}, {"--context", "16"}})
      if (std::ranges::find(more, option) == more.end()) all.insert(all.end(), {option, value});
    all.insert(all.end(), {"--width", "128", "--dropout", "0.1"});
    return train_arguments(data, folder / out, 3, all);
  }
  double most(const std::string& out, const std::string& of) const {
    double most = 0;
    for (const io::RunRecord& record : io::read_run_log(folder / out + "/metrics.jsonl"))
      for (const auto& [metric, value] : record.metrics)
        if (metric == of) most = std::max(most, value);
    return most;
  }
  // The number behind `words`.
  static double number_after(const std::string& text, const std::string& words) {
    const size_t at = text.find(words);
    EXPECT_NE(at, std::string::npos) << words << " in " << text;
    return at == std::string::npos ? 0 : std::atof(text.c_str() + at + words.size());
  }
};

// By the allocator of rank 0, in a step after which nothing is evaluated.
TEST_F(SharedSteps, TakeWhatIsPredicted) {
  const std::vector<Arguments> cases = {{"--accumulate", "2", "--batch", "2"},
                                        {"--accumulate", "8", "--batch", "1", "--ema", "0.9"},
                                        {"--accumulate", "4", "--batch", "2", "--precision", "bf16-pure"},
                                        {"--accumulate", "2", "--batch", "32", "--bucket-size", "2MiB"}};
  for (size_t c = 0; c < cases.size(); ++c)
    for (const char* stage : {"0", "1", "2", "3"}) {
      const std::string out = std::string(stage) + " of " + std::to_string(c);
      Arguments more = {"--ranks", "2", "--zero", stage, "--eval-every", "0"};
      more.insert(more.end(), cases[c].begin(), cases[c].end());
      const std::string said = testing::run(deep(out, more));
      const std::string rows = cases[c][3];
      const double predicted = number_after(said, "\nA step of " + rows + ": "),
                   measured = most(out, "peak_bytes") / (1 << 20);
      EXPECT_NEAR(predicted, measured, 0.03 * measured + 0.1) << said;
    }
}

TEST_F(SharedSteps, ThatFitSharedAloneAreTrained) {
  auto told = [&](const std::string& out, const std::string& limit, const std::string& stage, int code) {
    Program program(deep(out, {"--ranks", "2", "--accumulate", "2", "--batch", "1", "--zero", stage,
                               "--memory-limit", limit}));
    EXPECT_EQ(program.wait(), code) << program.err();
    return program.err();
  };
  const std::string refused = "--batch 1: a step with --recompute none is predicted to take more than the ";
  EXPECT_EQ(told("shared", "20MiB", "3", 0).find("warning"), std::string::npos);
  EXPECT_NE(told("whole", "20MiB", "0", 2).find(refused + "20.0 MiB"), std::string::npos);
  EXPECT_NE(told("less", "15MiB", "3", 2).find(refused + "15.0 MiB"), std::string::npos);
}

// The planner measures blocks with weights whole, and counts what a rank has in a step.
TEST_F(SharedSteps, ArePlannedForABudget) {
  const Arguments rows = {"--layers",     "4", "--context",    "64", "--batch", "12",
                          "--accumulate", "4", "--eval-every", "0"};
  auto with = [&](Arguments more) {
    more.insert(more.end(), rows.begin(), rows.end());
    return more;
  };
  testing::run(deep("one", with({})));
  for (const char* stage : {"0", "1", "2", "3"}) {
    const std::string none =
        testing::run(deep(std::string("none") + stage, with({"--ranks", "2", "--zero", stage})));
    const std::string step = none.substr(none.find("\nA step of 12: "));
    const double whole = number_after(step, "\nA step of 12: "), full = number_after(step, "(selective), ");
    ASSERT_LT(full, 0.9 * whole) << none;
    const double budget = 0.5 * (whole + full);
    const std::string out = std::string("plan") + stage;
    const std::string said = testing::run(deep(out, with({"--ranks", "2", "--zero", stage, "--recompute",
                                                          "auto:" + std::to_string(budget) + "MiB"})));
    EXPECT_NE(said.find("Recompute: auto:"), std::string::npos) << said;
    EXPECT_NE(said.find('[', said.find("blocks ")), std::string::npos) << "some are recomputed: " << said;
    EXPECT_LE(most(out, "peak_bytes"), 1.01 * budget * (1 << 20)) << said;
    EXPECT_GE(most(out, "peak_bytes"), 0.8 * budget * (1 << 20)) << "most of it is used: " << said;
    expect_same_checkpoints(folder / out, folder / "one");
    EXPECT_EQ(measurements(folder / out), measurements(folder / "one")) << out;
  }
  Program refused(deep("least", with({"--ranks", "2", "--zero", "3", "--recompute", "auto:5MiB"})));
  EXPECT_EQ(refused.wait(), 2);
  EXPECT_NE(refused.err().find("a budget of 5.0 MiB is below the minimum "), std::string::npos)
      << refused.err();
}

// Averages of which each rank has a part are whole while it is evaluated: a step has room, and no evaluation.
TEST_F(SharedSteps, WhoseAveragesDoNotFitAreToldThatNoBatchHelps) {
  const Arguments rows = {"--ranks",     "2",         "--accumulate", "2", "--batch", "8",
                          "--precision", "bf16-pure", "--zero",       "2", "--ema",   "0.9"};
  auto with = [&](Arguments more) {
    more.insert(more.end(), rows.begin(), rows.end());
    return more;
  };
  testing::run(deep("step", with({"--eval-every", "0"})));
  const double limit = 1.02 * most("step", "peak_bytes");
  Program refused(
      deep("evaluated", with({"--eval-every", "1", "--memory-limit", std::to_string(int64_t(limit))})));
  EXPECT_EQ(refused.wait(), 2) << refused.out();
  EXPECT_NE(refused.err().find("evaluation: out of memory"), std::string::npos) << refused.err();
  EXPECT_NE(refused.err().find("evaluation takes as much with any --recompute; not even --batch 1 fits"),
            std::string::npos)
      << refused.err();
}

// Of a run that was cut short before it was evaluated. The --batch that is named fits, and one half as large again does not.
TEST_F(SharedSteps, WhoseEvaluationDoesNotFitAreToldWhichDoes) {
  const std::string long_text = folder.write("long", tiny_text(130'000)), out = folder / "evaluated";
  testing::run(
      train_arguments(long_text, out, 2,
                      {"--layers", "2", "--width", "128", "--context", "64", "--batch", "192", "--accumulate",
                       "2", "--eval-every", "1", "--ranks", "2", "--zero", "3", "--stop-after", "1"}));
  const std::string log = out + "/metrics.jsonl", whole = bytes_of_file(log);
  auto told = [&](const Arguments& more) {
    std::istringstream lines(whole);
    std::ofstream cut_short(log);
    for (std::string line; std::getline(lines, line);)
      if (line.find("val_loss") == std::string::npos) cut_short << line << '\n';
    cut_short.close();
    Arguments all = {"train", "--out", out, "--resume", "--ranks", "2", "--memory-limit", "40MiB"};
    all.insert(all.end(), more.begin(), more.end());
    Program refused(all);
    EXPECT_EQ(refused.wait(), 2) << refused.out();
    return refused.err();
  };
  const std::string in_evaluation = "evaluation: out of memory";
  const std::string first = told({});
  EXPECT_NE(first.find(in_evaluation), std::string::npos) << first;
  const auto rows = int64_t(number_after(first, "; --batch "));
  ASSERT_GT(rows, 0) << first;
  const std::string fits = told({"--batch", std::to_string(rows), "--change"});
  EXPECT_EQ(fits.find(in_evaluation), std::string::npos) << fits;
  EXPECT_NE(fits.find("training step: out of memory"), std::string::npos) << "evaluated, it trains: " << fits;
  const std::string larger = told({"--batch", std::to_string(rows * 3 / 2), "--change"});
  EXPECT_NE(larger.find(in_evaluation), std::string::npos) << larger;
}

TEST_F(Zero, WireOf16BitsTrainsToOtherBits) {
  testing::run(arguments("one", {}));
  const std::string text = testing::run(arguments("two", {"--ranks", "2", "--wire", "bf16", "--zero", "1"}));
  EXPECT_NE(text.find("Gradients are sent in bf16"), std::string::npos) << text;
  const auto loss = [&](const char* out) {
    for (const io::RunRecord& record : io::read_run_log(folder / out + "/metrics.jsonl"))
      for (const auto& [name, value] : record.metrics)
        if (record.step == 6 && name == "val_loss") return value;
    return -1.0;
  };
  EXPECT_NE(measurements(folder / "one"), measurements(folder / "two"));
  for (const char* stage : {"2", "3"}) {
    testing::run(arguments(stage, {"--ranks", "2", "--wire", "bf16", "--zero", stage}));
    EXPECT_EQ(measurements(folder / stage), measurements(folder / "two")) << stage;
  }
  EXPECT_NEAR(loss("one"), loss("two"), 0.01);  // six steps, each off by a bf16's rounding of its gradients
  expect_refused({"train", "--out", folder / "two", "--resume", "--steps", "8", "--wire", "f32"},
                 {"--wire bf16 (now f32)", "--change"});
}

TEST_F(Zero, ResumeAutoBeginsOrGoesOn) {
  testing::run(arguments("whole", {}));
  const Arguments once = arguments("part", {"--resume", "auto", "--stop-after", "2"});
  EXPECT_EQ(testing::run(once).find("It goes on"), std::string::npos);
  EXPECT_NE(testing::run(once).find("It goes on after step 2"), std::string::npos);
  testing::run({"train", "--out", folder / "part", "--resume", "auto", "--ranks", "2"});
  expect_same_checkpoints(folder / "part", folder / "whole");
  expect_refused({"train", "--data", data, "--resume", "auto"}, {"say which run goes on by --out"});
  expect_refused(arguments("part", {"--resume", "maybe"}), {"--resume"});
  folder.write("other/notes", "mine");
  expect_refused(arguments("other", {"--resume", "auto"}), {"holds something already that is no run"});
}

TEST_F(Zero, ResumeAutoNeverBeginsAnewOnADamagedCheckpoint) {
  const Arguments again = arguments("run", {"--resume", "auto", "--stop-after", "2"});
  testing::run(again);
  const std::string file = newest_checkpoint(folder / "run") + "/optimizer.safetensors";
  const std::string whole = bytes_of_file(file), latest = folder / "run" + "/checkpoints/LATEST";
  std::ofstream(file, std::ios::binary) << whole.substr(0, whole.size() - 1);
  expect_refused(again, {"optimizer.safetensors"});
  std::ofstream(file, std::ios::binary) << whole;
  std::ofstream(latest) << "step-00000009\n";
  expect_refused(again, {"LATEST", "step-00000009"});
  std::ofstream(latest) << "step-00000002\n";
  EXPECT_NE(testing::run(again).find("It goes on after step 2"), std::string::npos);
}

TEST_F(Zero, ARestartByTorchrunGoesOn) {
  testing::run(arguments("run", {"--stop-after", "2"}));
  setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
  EXPECT_NE(testing::run(arguments("run", {})).find("It goes on after step 2"), std::string::npos);
  testing::run(arguments("new", {"--stop-after", "1"}));
  expect_refused({"train", "--data", data}, {"torchrun has started this run again", "--out"});
  setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
  expect_refused(arguments("run", {}), {"holds a run already"});
  unsetenv("TORCHELASTIC_RESTART_COUNT");
}

}  // namespace
}  // namespace reprise::apps
