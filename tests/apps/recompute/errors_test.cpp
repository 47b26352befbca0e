// Bad options: exit code 2 and one line that says what and where.
// labels: end-to-end
#include "reprise/tests/apps/recompute/program.h"

namespace reprise::testing {
namespace {

void expect_recompute_refused(const Arguments& arguments, const std::vector<std::string>& parts) {
  ProgramResult result = run_recompute(arguments);
  EXPECT_EQ(result.code, 2) << result.out << result.err;
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(result.err.starts_with("reprise-recompute: ")) << result.err;
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err << "lacks: " << part;
}

TEST(RecomputeRefusals, NameTheOptionThatIsUnknownOrDoesNotFit) {
  TempFolder folder;
  auto expect = [&](const std::string& command, const Arguments& more,
                    const std::vector<std::string>& parts) {
    expect_recompute_refused(recompute_arguments(command, more), parts);
  };
  expect_recompute_refused({}, {"subcommand"});
  expect_recompute_refused({"shrink"}, {"shrink"});
  expect_recompute_refused({"verify", "--model", "gpt5"}, {"--model", "gpt5", "gpt2_124m"});
  expect("verify", {"--steps", "0"}, {"--steps", "0"});
  expect("verify", {"--recompute", "some"}, {"some", "full"});
  expect("verify", {"--recompute", "layers:9"}, {"9"});
  expect("verify", {"--recompute", "auto:lots"}, {"lots", "512MiB"});
  expect("verify", {"--recompute", "auto:120%"}, {"120%"});
  expect("verify", {"--recompute", "auto:100kB"}, {"budget", "below the minimum"});
  expect("verify", {"--heads", "3"}, {"--heads 3", "--width 32"});
  expect("verify", {"--length", "40"}, {"--length 40", "32"});
  expect("verify", {"--dropout", "1"}, {"--dropout", "1"});
  expect("verify", {"--device", "toaster"}, {"toaster"});
  expect("verify", {"--data", folder / "none"}, {folder / "none"});
  expect("verify", {"--data", folder.write("text", "abc"), "--vocab-size", "5"}, {"--vocab-size", "--data"});
  expect("compare", {"--recompute", "full", "most", "--out", folder / "out"}, {"most"});
  expect("compare", {"--recompute", "segments:9", "--out", folder / "out"}, {"9"});
  expect("max-batch", {}, {"--memory-limit"});
  expect("max-batch", {"--memory-limit", "lots"}, {"lots", "512MiB"});
  expect("profile", {"--recompute", "most", "--out", folder / "out"}, {"most"});
  expect("plan", {"--recompute", "auto:some", "--out", folder / "out"}, {"some", "512MiB"});
  expect("plan", {"--recompute", "full", "--out", folder / "out"}, {"--recompute", "'full'", "auto:2GiB"});
  expect("plan", {"--memory-budget", "1GiB"}, {"--memory-budget: the budget is part of --recompute"});
  for (const char* command : {"verify", "compare", "profile", "plan", "max-batch", "memory"})
    expect_recompute_refused({command, "--batch", "auto"}, {"--batch", "auto", "`max-batch` finds"});
  expect("verify", {"--recompute", "keep:0"}, {"--recompute", "'keep:0'", "keep is at least 1"});
  expect("plan", {"--recompute", "auto:100kB", "--out", folder / "out"}, {"budget", "below the minimum"});
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(RecomputeHelp, ListsEveryCommandAndExitsWithZero) {
  ProgramResult result = run_recompute({"--help"});
  EXPECT_EQ(result.code, 0);
  for (const char* command : {"verify", "compare", "max-batch", "profile", "plan"})
    EXPECT_NE(result.out.find(command), std::string::npos) << command;
}

}  // namespace
}  // namespace reprise::testing
