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
    Arguments all = {"--layers", "4", "--dropout", "0.1", "--width", "32", "--context", "64"};
    all.insert(all.end(), more.begin(), more.end());
    return train_arguments(data_, folder_ / out, 3, all);
  }
  std::string kept(const std::string& out, const std::string& key) const {
    return read_config(folder_ / out + "/config.toml").at(key);
  }
  int64_t number(const std::string& out, const std::string& key) const {
    return std::atoll(kept(out, key).c_str());
  }
  // The same run, told what `out` has chosen.
  void expect_bits_of_its_choice(const std::string& out) const {
    run(arguments("written", {"--batch", kept(out, "batch"), "--accumulate", kept(out, "accumulate"),
                              "--recompute", kept(out, "recompute")}));
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
  double peak = 0;
  for (const io::RunRecord& record : io::read_run_log(folder_ / "run" + "/metrics.jsonl"))
    for (const auto& [metric, value] : record.metrics)
      if (metric == "peak_bytes") peak = std::max(peak, value);
  EXPECT_GT(peak, 0);
  EXPECT_LE(peak, 4 << 20);
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
  expect_refused(arguments("zero", {"--batch", "auto", "--ranks", "2", "--zero", "3"}),
                 {"--batch auto measures steps of each rank by itself", "--zero 3"});
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
