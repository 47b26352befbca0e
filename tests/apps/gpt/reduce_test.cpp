// --reduce fast: bits that depend on the number of ranks, which a run then keeps; and what runs on ranks record.
// labels: end-to-end
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

struct Reduce : ::testing::Test {
  void SetUp() override {
    if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }
  // 6 steps of eight micro-batches.
  std::string train(const std::string& out, const Arguments& more) const {
    Arguments all = {"--dropout", "0.1", "--accumulate", "8"};
    all.insert(all.end(), more.begin(), more.end());
    return testing::run(train_arguments(data, folder / out, 6, all));
  }
  Arguments resume(const std::string& out, const Arguments& more) const {
    Arguments all = {"train", "--out", folder / out, "--resume"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  double last(const std::string& out, const std::string& wanted) const {
    double value = -1;
    for (const io::RunRecord& record : io::read_run_log(folder / out + "/metrics.jsonl"))
      for (const auto& [name, of_step] : record.metrics)
        if (name == wanted) value = of_step;
    return value;
  }
  // Each rank says why.
  void expect_refused_on_ranks(const std::string& out, const Arguments& more,
                               const std::string& reason) const {
    Program program(resume(out, more));
    EXPECT_EQ(program.wait(), 2) << program.err();
    EXPECT_NE(program.err().find(reason), std::string::npos) << program.err();
    EXPECT_NE(program.err().find("--change"), std::string::npos) << program.err();
  }
  TempFolder folder;
  const std::string data = folder.write("text", tiny_text());
};

TEST_F(Reduce, FastTrainsToOtherBitsOnEachNumberOfRanks) {
  train("tree", {});
  for (const char* ranks : {"1", "2", "4"}) {
    const std::string text = train(ranks, {"--reduce", "fast", "--ranks", ranks});
    EXPECT_EQ(text.find("Gradients are added by --reduce fast") != std::string::npos, *ranks != '1') << text;
    EXPECT_NE(last(ranks, "weights_crc"), last("tree", "weights_crc")) << ranks;
    EXPECT_NEAR(last(ranks, "val_loss"), last("tree", "val_loss"),
                1e-4);  // six steps, each off by f32's rounding
  }
  EXPECT_NE(last("1", "weights_crc"), last("2", "weights_crc"));
  EXPECT_NE(last("2", "weights_crc"), last("4", "weights_crc"));
  train("again", {"--reduce", "fast", "--ranks", "2"});
  expect_same_checkpoints(folder / "again", folder / "2");
}

TEST_F(Reduce, AnotherSumOrNumberIsAChange) {
  train("whole", {"--reduce", "fast", "--ranks", "2"});
  train("run", {"--reduce", "fast", "--ranks", "2", "--stop-after", "2"});
  expect_refused_on_ranks("run", {"--ranks", "2", "--reduce", "tree"}, "--reduce fast (now tree)");
  expect_refused_on_ranks("run", {"--ranks", "4"}, "--ranks 2 (now 4)");
  expect_refused(resume("run", {}), {"--ranks 2 (now 1); give --ranks 2 to go on as it was", "--change"});
  testing::run(resume("run", {"--ranks", "2", "--stop-after", "2"}));
  testing::run(resume("run", {"--ranks", "2", "--reduce", "fast"}));
  expect_same_checkpoints(folder / "run", folder / "whole");
  EXPECT_EQ(measurements(folder / "run"), measurements(folder / "whole"));
  testing::run(resume("run", {"--ranks", "4", "--steps", "8", "--change"}));
  expect_refused_on_ranks("run", {"--ranks", "2", "--steps", "10"}, "--ranks 4 (now 2)");
  testing::run(resume("run", {"--reduce", "tree", "--ranks", "2", "--steps", "10", "--change"}));
  testing::run(resume("run", {"--ranks", "4", "--steps", "12"}));
}

// Of two ranks' numbers there is one sum, whole or in parts; more have others.
TEST_F(Reduce, FastGoesWithEachStage) {
  for (const char* ranks : {"2", "4"}) {
    const Arguments fast = {"--width", "160", "--reduce", "fast", "--ranks", ranks};
    const auto with_stage = [&](const char* stage) {
      const std::string out = std::string(ranks) + " at " + stage;
      Arguments more = fast;
      more.insert(more.end(), {"--zero", stage});
      const std::string text = train(out, more);
      EXPECT_NE(text.find("Gradients are added by --reduce fast"), std::string::npos) << text;
      return out;
    };
    const std::string whole = with_stage("0");
    for (const char* stage : {"2", "3"}) {
      const std::string parts = with_stage(stage);
      EXPECT_EQ(last(parts, "weights_crc") == last(whole, "weights_crc"), *ranks == '2') << parts;
      EXPECT_NEAR(last(parts, "val_loss"), last(whole, "val_loss"), 1e-4) << parts;  // as above
    }
  }
}

TEST_F(Reduce, ThePartsOfFastSumsAreKept) {
  const Arguments fast = {"--reduce", "fast", "--ranks", "2", "--zero", "2"};
  train("whole", {"--reduce", "fast", "--ranks", "2"});  // of two ranks, the same sums
  Arguments once = fast;
  once.insert(once.end(), {"--stop-after", "2"});
  train("run", once);
  expect_refused_on_ranks("run", {"--ranks", "2", "--zero", "1"}, "--zero 2 (now 1)");
  expect_refused_on_ranks("run", {"--ranks", "2", "--zero", "3"}, "--zero 2 (now 3)");
  testing::run(resume("run", {"--ranks", "2", "--zero", "2"}));
  expect_same_checkpoints(folder / "run", folder / "whole");
  testing::run(resume("run", {"--ranks", "2", "--zero", "0", "--steps", "8", "--change"}));
  testing::run(resume("run", {"--ranks", "2", "--zero", "1", "--steps", "10"}));
}

TEST_F(Reduce, ANumberOfRanksIsKeptWithWireToo) {
  train("run", {"--wire", "bf16", "--ranks", "2", "--stop-after", "2"});
  expect_refused_on_ranks("run", {"--ranks", "4"}, "--ranks 2 (now 4)");
}

TEST_F(Reduce, WhatDoesNotFitIsRefused) {
  expect_refused(train_arguments(data, folder / "a", 2, {"--reduce", "slow"}), {"--reduce", "slow"});
}

// Weights that overflow end both ranks.
TEST_F(Reduce, RankLogsKeepWhatEachRankSays) {
  testing::run(
      train_arguments(data, folder / "run", 9,
                      {"--lr", "1e38", "--warmup", "0", "--clip", "0", "--ranks", "2", "--rank-logs"}),
      2);
  std::string all;
  for (const char* rank : {"0", "1"}) {
    const std::string log = bytes_of_file(folder / "run/rank-" + rank + ".log");
    EXPECT_NE(log.find("reprise-gpt: "), std::string::npos) << log;
    all += log;
  }
  EXPECT_NE(all.find("first bad tensor"), std::string::npos) << all;
}

TEST_F(Reduce, RunsOnRanksRecordCommunication) {
  train("one", {});
  train("two", {"--ranks", "2"});
  EXPECT_EQ(last("one", "comm_bytes"), -1);
  EXPECT_EQ(last("one", "weights_crc"), last("two", "weights_crc"));
  for (const char* name : {"comm_seconds", "exposed_comm_seconds", "comm_bytes", "step_seconds_min",
                           "step_seconds_max", "slowest_rank"})
    EXPECT_GE(last("two", name), 0) << name;
  EXPECT_GT(last("two", "comm_bytes"), 4 * 1000);
  EXPECT_LE(last("two", "step_seconds_min"), last("two", "step_seconds_max"));
}

}  // namespace
}  // namespace reprise::apps
