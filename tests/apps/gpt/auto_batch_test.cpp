// `--batch auto --recompute auto` of reprise-gpt: batch and strategy are chosen together, once, and the run has the bits of what was
// chosen.
// labels: end-to-end
#include "reprise/apps/common/config_file.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/distributed/gloo/gloo_transport.h"
#include "reprise/tests/apps/gpt/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

class AutoBatch : public ::testing::Test {
 protected:
  // Of 4 blocks with dropout, 12 sequences per update.
  Arguments arguments(const std::string& out, const Arguments& more) const {
    Arguments all = {"--layers", "4", "--dropout", "0.1", "--context", "64"};
    if (std::ranges::find(more, "--width") == more.end()) all.insert(all.end(), {"--width", "32"});
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data_, folder_ / out, 3, all);
  }
  std::string kept(const std::string& out, const std::string& key) const {
    return read_config(folder_ / out + "/config.toml").at(key);
  }
  int64_t number(const std::string& out, const std::string& key) const {
    return std::atoll(kept(out, key).c_str());
  }
  double peak_bytes(const std::string& out) const {
    double peak = 0;
    for (const io::RunRecord& record : io::read_run_log(folder_ / out + "/metrics.jsonl"))
      for (const auto& [metric, value] : record.metrics)
        if (metric == "peak_bytes") peak = std::max(peak, value);
    return peak;
  }
  // The same run, told what `out` has chosen.
  void expect_bits_of_its_choice(const std::string& out, Arguments more = {}) const {
    more.insert(more.end(), {"--batch", kept(out, "batch"), "--accumulate", kept(out, "accumulate"),
                             "--recompute", kept(out, "recompute")});
    run(arguments("written", more));
    expect_same_checkpoints(folder_ / out, folder_ / "written");
    EXPECT_EQ(measurements(folder_ / out), measurements(folder_ / "written"));
  }

  TempFolder folder_;
  const std::string data_ = folder_.write("text", tiny_text());
};

const Arguments both = {"--batch", "auto", "--recompute", "auto"};

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(AutoBatch, AndRecomputeAreChosenTogetherAndKept) {
  const std::string said = run(arguments("run", with(both, {"--memory-limit", "5MiB", "--stop-after", "1"})));
  EXPECT_EQ(number("run", "batch") * number("run", "accumulate"), 12) << said;
  const std::string recompute = kept("run", "recompute");
  EXPECT_NE(parse_strategy(recompute).kind, RecomputeStrategy::Kind::automatic) << recompute;
  const std::string line = "Batch: " + kept("run", "batch") + " sequences, " + kept("run", "accumulate") +
                           " micro-batches per update, --recompute " + recompute + ": ";
  const size_t at = said.find(line);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_LE(std::atof(said.c_str() + at + line.size()), 4.5) << "nine tenths of the limit";
  EXPECT_NE(said.find(" of 4.5 MiB, ", at), std::string::npos) << said;
  EXPECT_NE(said.find(" sequences per second", at), std::string::npos) << said;
  const std::string again = run({"train", "--out", folder_ / "run", "--resume"});
  EXPECT_EQ(again.find("Batch: "), std::string::npos) << "it was chosen: " << again;
  expect_bits_of_its_choice("run");
}

TEST_F(AutoBatch, StaysWithinABudgetThatIsNamed) {
  const std::string said = run(arguments("run", {"--batch", "auto", "--recompute", "auto:4MiB"}));
  EXPECT_NE(said.find(" of 4.0 MiB, "), std::string::npos) << said;
  EXPECT_EQ(number("run", "batch") * number("run", "accumulate"), 12) << said;
  EXPECT_GT(peak_bytes("run"), 0);
  EXPECT_LE(peak_bytes("run"), 4 << 20);
  expect_bits_of_its_choice("run");
}

TEST_F(AutoBatch, OnRanksIsTheFirstOnesChoice) {
  if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  for (const char* recompute : {"auto", "full"}) {
    const std::string out = std::string("ranks-") + recompute;
    const std::string said = run(arguments(
        out, {"--batch", "auto", "--recompute", recompute, "--memory-limit", "5MiB", "--ranks", "2"}));
    EXPECT_EQ(number(out, "batch") * number(out, "accumulate"), 12) << said;
    EXPECT_EQ(number(out, "accumulate") % 2, 0) << said;
    std::filesystem::remove_all(folder_ / "written");
    expect_bits_of_its_choice(out);
  }
  expect_refused(arguments("odd", {"--batch", "auto", "--ranks", "5"}),
                 {"--batch auto: 12 rows per update, --batch x --accumulate, are no multiple of 5 ranks"});
}

// What these ranks share leaves room for more rows.
TEST_F(AutoBatch, CountsWhatRanksShare) {
  if (!distributed::has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  const Arguments wide = {"--width", "128"};
  auto chosen = [&](const std::string& out, const std::string& stage, const Arguments& more) {
    Arguments all = {"--accumulate", "2", "--batch", "auto", "--ranks", "2", "--zero", stage};
    all.insert(all.end(), more.begin(), more.end());
    const std::string said = run(arguments(out, with(all, wide)));
    std::filesystem::remove_all(folder_ / "written");
    expect_bits_of_its_choice(out, wide);
    return said;
  };
  chosen("whole", "0", {"--memory-limit", "24MiB"});
  for (const char* stage : {"2", "3"}) {
    const std::string out = std::string("stage ") + stage;
    const std::string said = chosen(out, stage, {"--memory-limit", "24MiB"});
    EXPECT_GT(number(out, "batch"), number("whole", "batch")) << said;
    const std::string planned = out + " with a plan";
    chosen(planned, stage, {"--memory-limit", "20MiB", "--recompute", "auto"});
    EXPECT_LE(peak_bytes(planned), 0.9 * (20 << 20));
  }
}

TEST_F(AutoBatch, SaysWhatTakesLeastWhereNothingFits) {
  expect_refused(
      arguments("a", {"--batch", "auto", "--recompute", "auto:100kB"}),
      {"--batch auto --recompute auto:100kB: no batch fits into 0.095 MiB; of those that divide 12 "
       "sequences per update, ",
       " with --recompute ", " takes least, "});
  expect_refused(arguments("b", with(both, {"--memory-limit", "900KiB"})),
                 {"--batch auto --recompute auto: not even a batch of 1 fits into 0.88 MiB, with any "
                  "--recompute"});
  expect_refused(
      arguments("c", {"--batch", "auto", "--recompute", "auto:50%"}),
      {"--recompute auto:50% is between what a batch takes", "give bytes, such as auto:2GiB, or auto"});
  for (const char* name : {"a", "b", "c"}) EXPECT_FALSE(std::filesystem::exists(folder_ / name)) << name;
}

}  // namespace
}  // namespace reprise::apps
