// `--recompute` of reprise-gpt: the same run to the bit in less memory, and free to change on resume.
// not in asan: Recompute.TrainsToTheSameBitsInLessMemory
// labels: end-to-end
#include "reprise/apps/common/config_file.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

class Recompute : public ::testing::Test {
 protected:
  void train(const std::string& name, const Arguments& more) {
    Arguments all = {"--layers", "4", "--dropout", "0.1"};
    all.insert(all.end(), more.begin(), more.end());
    printed_ = run(train_arguments(data_, folder_ / name, 3, all));
  }
  void expect_same_run(const std::string& got, const std::string& want) {
    expect_same_checkpoints(folder_ / got, folder_ / want);
    EXPECT_EQ(measurements(folder_ / got), measurements(folder_ / want)) << got;
  }
  // The peak of the last step.
  double peak(const std::string& name) const {
    double bytes = 0;
    for (const io::RunRecord& record : io::read_run_log(folder_ / name + "/metrics.jsonl"))
      for (const auto& [metric, value] : record.metrics)
        if (metric == "peak_bytes") bytes = value;
    return bytes;
  }

  TempFolder folder_;
  std::string data_ = folder_.write("text", tiny_text()), printed_;
};

TEST_F(Recompute, TrainsToTheSameBitsInLessMemory) {
  Arguments larger = {"--width", "32", "--context", "64", "--batch", "4"};
  auto with = [&](const std::string& strategy) {
    Arguments all = larger;
    all.insert(all.end(), {"--recompute", strategy});
    train(strategy, all);
    return peak(strategy);
  };
  double none = with("none");
  EXPECT_EQ(printed_.find("Recompute"), std::string::npos);
  for (const char* strategy : {"full", "selective", "selective:save_attention", "every:2", "keep:2",
                               "segments:2", "sqrt", "layers:0,3", "offload"}) {
    EXPECT_LT(with(strategy), none) << strategy;
    EXPECT_NE(printed_.find(std::string("Recompute: ") + strategy), std::string::npos) << printed_;
    expect_same_run(strategy, "none");
  }
  EXPECT_LT(peak("full"), peak("every:2"));
  EXPECT_EQ(read_config(folder_ / "keep:2/config.toml").at("recompute"), "keep:2");
}

// The number of MiB before " of this chain" in the refusal of a budget that is too small.
std::string stated_minimum(const std::string& refusal) {
  size_t end = refusal.find(" MiB of this chain"), begin = refusal.rfind(' ', end - 1) + 1;
  return refusal.substr(begin, end - begin) + "MiB";
}

TEST_F(Recompute, AutoTrainsToTheSameBitsWithinItsBudget) {
  Arguments larger = {"--width", "32", "--context", "64", "--batch", "4"};
  train("none", larger);
  auto with = [&](const std::string& name, const std::string& budget, const Arguments& more = {}) {
    Arguments all = larger;
    all.insert(all.end(), {"--layers", "4", "--dropout", "0.1", "--recompute", "auto:" + budget});
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data_, folder_ / name, 3, all);
  };
  Program refused(with("refused", "100kB"));
  EXPECT_EQ(refused.wait(), 2) << refused.out();
  EXPECT_NE(refused.err().find("recompute: a budget of 0.095 MiB is below the minimum "), std::string::npos)
      << refused.err();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "refused"));
  std::string minimum = stated_minimum(refused.err());
  std::string printed = run(with("least", minimum, {"--memory-limit", minimum}));
  EXPECT_NE(printed.find("Recompute: auto:" + minimum + ": blocks ["), std::string::npos) << printed;
  EXPECT_LT(peak("least"), peak("none"));
  expect_same_run("least", "none");
  run(with("more", "1GiB"));
  EXPECT_EQ(peak("more"), peak("none"));
  expect_same_run("more", "none");
  printed = run(with("half", "50%"));
  EXPECT_NE(printed.find("MiB of the 50% it may take"), std::string::npos) << printed;
  EXPECT_LT(peak("half"), peak("none"));
  EXPECT_GT(peak("half"), peak("least"));
  expect_same_run("half", "none");
}

// What is held beside the blocks counts in what is stated as in what is refused.
TEST_F(Recompute, AutosMinimumHasTheSumsOfMicroBatches) {
  const auto with = [&](const std::string& name, const std::string& budget, const Arguments& more = {}) {
    Arguments all = {"--width",  "32", "--context",    "64", "--batch",     "4",
                     "--layers", "4",  "--accumulate", "8",  "--recompute", "auto:" + budget};
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data_, folder_ / name, 2, all);
  };
  Program refused(with("refused", "1MiB"));
  EXPECT_EQ(refused.wait(), 2) << refused.out();
  EXPECT_NE(refused.err().find("recompute: a budget of 1.0 MiB is below the minimum "), std::string::npos)
      << refused.err();
  const std::string minimum = stated_minimum(refused.err());
  // Within the hundredths that a plan may be off by: a gradient on its way into a sum is not in it.
  const std::string limit = std::to_string(1.05 * std::atof(minimum.c_str())) + "MiB";
  const std::string printed = run(with("least", minimum, {"--memory-limit", limit}));
  EXPECT_NE(printed.find("Recompute: auto:" + minimum + ": blocks ["), std::string::npos) << printed;
}

TEST_F(Recompute, AutoAloneIsWithinWhatThereIs) {
  const Arguments larger = {"--width", "32", "--context", "64", "--batch", "4"};
  const auto with = [&](const Arguments& more) {
    Arguments all = larger;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  train("none", larger);
  train("plenty", with({"--recompute", "auto"}));
  EXPECT_EQ(peak("plenty"), peak("none")) << "all of it fits";
  const auto limit = int64_t(0.95 * peak("none"));
  train("limited", with({"--recompute", "auto", "--memory-limit", std::to_string(limit)}));
  EXPECT_LE(peak("limited"), 0.9 * double(limit));
  EXPECT_EQ(read_config(folder_ / "limited/config.toml").at("recompute"), "auto");
  for (const char* run : {"plenty", "limited"}) expect_same_run(run, "none");
}

TEST_F(Recompute, APlanCanBeWritten) {
  const Arguments larger = {"--width", "32", "--context", "64", "--batch", "4"};
  train("none", larger);
  const double without = peak("none");
  Arguments planned = larger;
  planned.insert(planned.end(), {"--recompute", "plan:[0-1] 2-3"});
  train("planned", planned);
  EXPECT_NE(printed_.find("blocks [0-1] 2-3 "), std::string::npos) << printed_;
  EXPECT_LT(peak("planned"), without);
  expect_same_run("planned", "none");
  EXPECT_EQ(read_config(folder_ / "planned/config.toml").at("recompute"), "plan:[0-1] 2-3");
  planned.back() = "plan:[0-1] 2";
  planned.insert(planned.end(), {"--layers", "4"});
  expect_refused(train_arguments(data_, folder_ / "short", 3, planned),
                 {"recompute: the plan ends at layer 3 of a chain of 4 layers"});
}

TEST_F(Recompute, AutoHasItsBudgetBehindAColon) {
  expect_refused(train_arguments(data_, folder_ / "a", 3, {"--recompute", "auto:"}),
                 {"--recompute", "'' in 'auto:'", ", nor auto"});
  expect_refused(train_arguments(data_, folder_ / "b", 3, {"--memory-budget", "1GiB"}),
                 {"--memory-budget: the budget is part of --recompute, as auto:2GiB"});
  expect_refused(train_arguments(data_, folder_ / "c", 3, {"--recompute", "auto:much"}),
                 {"--recompute", "'much'", "512MiB", "50%"});
  const std::string config = folder_.write("old.toml", "memory_budget = \"1GiB\"\n");
  expect_refused(train_arguments(data_, folder_ / "d", 3, {"--config", config}),
                 {"old.toml:1: memory_budget: ", "the budget is part of --recompute"});
}

// A run that goes on is not refused by what its step is predicted to take.
TEST_F(Recompute, AStepThatDoesNotFitSaysWhatWouldHaveFitted) {
  const Arguments larger = {"--width", "32", "--context", "64", "--batch", "4"};
  Arguments part = larger;
  part.insert(part.end(), {"--stop-after", "1"});
  train("part", part);
  const std::string limit = std::to_string(int64_t(0.8 * peak("part")));
  Program refused({"train", "--out", folder_ / "part", "--resume", "--memory-limit", limit});
  EXPECT_EQ(refused.wait(), 2) << refused.out();
  for (const char* told :
       {"reprise-gpt: training step: out of memory on cpu: ", " of activations refused by the limit of ",
        "; a step of 4 sequences is predicted to take ", "full would fit; so would --batch "})
    EXPECT_NE(refused.err().find(told), std::string::npos) << refused.err();
  run({"train", "--out", folder_ / "part", "--resume", "--memory-limit", limit, "--recompute", "full"});
  train("whole", larger);
  expect_same_run("part", "whole");
}

TEST_F(Recompute, AStepOfARankThatDoesNotFitSaysWhatWouldHaveFitted) {
  train("part",
        {"--width", "32", "--context", "64", "--batch", "4", "--accumulate", "2", "--stop-after", "1"});
  const std::string limit = std::to_string(int64_t(0.8 * peak("part")));
  Program refused({"train", "--out", folder_ / "part", "--resume", "--ranks", "2", "--memory-limit", limit});
  EXPECT_EQ(refused.wait(), 2) << refused.out();
  for (const char* told :
       {": training step: out of memory on cpu: ", "; a step of 4 sequences is predicted to take ",
        "full would fit; so would --batch "})
    EXPECT_NE(refused.err().find(told), std::string::npos) << refused.err();
}

// A model that does not fit has no step to measure.
TEST_F(Recompute, AModelThatDoesNotFitSaysThatNothingHelps) {
  expect_refused(train_arguments(data_, folder_ / "large", 3, {"--width", "128", "--memory-limit", "256KiB"}),
                 {"out of memory on cpu: ", "which take as much with any --recompute and --batch"});
}

TEST_F(Recompute, MayChangeOnResume) {
  train("whole", {});
  train("part", {"--recompute", "full", "--stop-after", "1"});
  train("part", {"--recompute", "every:2", "--resume", "--stop-after", "1"});
  train("part", {"--resume"});
  expect_same_run("part", "whole");
}

TEST_F(Recompute, IsKeptInTheRunsConfigAndReadFromOne) {
  train("first", {"--recompute", "every:2"});
  std::string config = folder_ / "first/config.toml";
  EXPECT_EQ(read_config(config).at("recompute"), "every:2");
  run({"train", "--config", config, "--out", folder_ / "second"});
  EXPECT_EQ(read_config(folder_ / "second/config.toml").at("recompute"), "every:2");
  expect_same_run("second", "first");
}

}  // namespace
}  // namespace reprise::apps
