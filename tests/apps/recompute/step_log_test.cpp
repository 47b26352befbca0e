// metrics.jsonl of a training run says what recompute cost, step by step.
// labels: end-to-end
#include <map>

#include "reprise/tests/apps/gpt/program.h"

namespace reprise::testing {
namespace {

std::map<std::string, double> step_metrics(const std::string& folder, const Arguments& more) {
  TempFolder data;
  run(train_arguments(data.write("text", tiny_text()), folder, 3, more));
  for (const io::RunRecord& record : io::read_run_log(folder + "/metrics.jsonl"))
    if (record.step == 2) return {record.metrics.begin(), record.metrics.end()};
  return {};
}

TEST(StepLog, HasSecondsAndBytesOfRecomputeWhenItIsOn) {
  TempFolder folder;
  auto plain = step_metrics(folder / "plain", {"--layers", "2"});
  auto full = step_metrics(folder / "full", {"--layers", "2", "--recompute", "full"});
  auto twice = step_metrics(folder / "twice", {"--layers", "2", "--recompute", "full", "--accumulate", "2"});
  EXPECT_FALSE(plain.contains("recompute_seconds"));
  EXPECT_FALSE(plain.contains("recomputed_bytes"));
  EXPECT_GT(full["recompute_seconds"], 0);
  EXPECT_GT(full["recomputed_bytes"], 0);
  EXPECT_EQ(twice["recomputed_bytes"], 2 * full["recomputed_bytes"]) << "both micro-batches count";
  EXPECT_EQ(full["loss"], plain["loss"]);
}

}  // namespace
}  // namespace reprise::testing
