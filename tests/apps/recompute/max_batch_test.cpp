// max-batch: what it finds fits, and one row more does not.
// labels: end-to-end
#include <sstream>

#include "reprise/tests/apps/recompute/program.h"

namespace reprise::testing {
namespace {

// The batch that a line of the table gives.
int64_t batch_of(const std::string& table, const std::string& strategy) {
  size_t line = table.find("\n" + strategy + " ");
  EXPECT_NE(line, std::string::npos) << table;
  std::istringstream in(table.substr(line + 1));
  std::string name;
  int64_t batch = 0;
  in >> name >> batch;
  return batch;
}

ProgramResult train_with(const std::string& limit, int64_t rows, const char* strategy) {
  return run_recompute(recompute_arguments("max-batch", {"--memory-limit", limit, "--recompute", strategy,
                                                         "--largest", std::to_string(rows), "--steps", "1"}));
}

TEST(MaxBatch, FitsAndOneMoreDoesNot) {
  ProgramResult result =
      run_recompute(recompute_arguments("max-batch", {"--memory-limit", "4MiB", "--steps", "1"}));
  ASSERT_EQ(result.code, 0) << result.err;
  int64_t plain = batch_of(result.out, "none"), full = batch_of(result.out, "full");
  EXPECT_GT(plain, 4);
  EXPECT_GT(full, plain * 3 / 2) << "recompute makes room";
  for (int64_t rows : {plain, full}) {
    std::string refusal = detail::join("with ", rows + 1, ": out of memory on cpu: ");
    EXPECT_NE(result.out.find(refusal), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("refused by the limit of 3.6 MiB"), std::string::npos) << result.out;
  }
  // The searches of fresh processes that may end at the answer, or just above it, agree.
  EXPECT_EQ(batch_of(train_with("4MiB", full, "full").out, "full"), full);
  EXPECT_EQ(batch_of(train_with("4MiB", full + 1, "full").out, "full"), full);
  EXPECT_NE(train_with("4MiB", full, "full").out.find("the search ended at --largest"), std::string::npos);
}

TEST(MaxBatch, FitsMoreRowsUnderAutocast) {
  auto rows = [](const char* precision) {
    const ProgramResult result = run_recompute(recompute_arguments(
        "max-batch", {"--memory-limit", "8MiB", "--steps", "1", "--precision", precision}));
    EXPECT_EQ(result.code, 0) << result.err;
    return batch_of(result.out, "none");
  };
  EXPECT_GT(rows("bf16"), rows("f32") * 6 / 5);
}

TEST(MaxBatch, SaysWhenNotEvenOneRowFits) {
  ProgramResult result =
      run_recompute(recompute_arguments("max-batch", {"--memory-limit", "1MiB", "--vocab-size", "1000"}));
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_NE(result.err.find("out of memory on cpu"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("; not even --batch 1 fits without recompute"), std::string::npos) << result.err;
}

TEST(MaxBatch, SaysWhichStrategyFitsWhereNoneDoesNot) {
  const Arguments model = {"--model",   "tiny", "--threads", "1",   "--layers",       "8",   "--width", "32",
                           "--context", "256",  "--length",  "256", "--memory-limit", "3MiB"};
  Arguments arguments = {"max-batch"};
  arguments.insert(arguments.end(), model.begin(), model.end());
  const ProgramResult result = run_recompute(arguments);
  EXPECT_EQ(result.code, 2) << result.out;
  for (const char* part :
       {"; a step of 4 rows is predicted to take too much (none), ", " (full) of 3.0 MiB",
        "; not even --batch 1 fits without recompute; --batch 1 would fit with --recompute full"})
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
}

}  // namespace
}  // namespace reprise::testing
