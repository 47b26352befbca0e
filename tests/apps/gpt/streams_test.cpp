// Standard streams that are closed, full or broken: what a program was asked for is never lost in silence,
// and training goes on without them. labels: end-to-end
#include "reprise/tests/apps/recompute/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

std::string quoted(const Arguments& arguments) {
  std::string line;
  for (const std::string& argument : arguments) line += " '" + argument + "'";
  return line;
}

// A shell's command with the program as "$0".
ProgramResult shell(const std::string& command, const char* program = testing::gpt_program()) {
  Program process({"-c", command, program}, "", "/bin/bash");
  int code = process.wait();
  return {code, process.out(), process.err()};
}

TEST(ClosedStreams, NoFileOfTheRunTakesTheirPlace) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  run(train_arguments(data, folder / "want", 4, {"--save-every", "2"}));
  for (std::string closed : {"<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    std::string out = folder / "run";
    ProgramResult result =
        shell("\"$0\"" + quoted(train_arguments(data, out, 4, {"--save-every", "2"})) + " " + closed);
    EXPECT_EQ(result.code, 0) << closed << result.err;
    EXPECT_EQ(measurements(out), measurements(folder / "want")) << closed;
    expect_same_checkpoints(out, folder / "want");
    for (const auto& entry : fs::directory_iterator(out)) {
      bool holds_output =
          entry.is_regular_file() && bytes_of_file(entry.path()).find("GPT:") != std::string::npos;
      EXPECT_FALSE(holds_output) << closed << entry.path();
    }
    bool told = result.err.find("standard output: Bad file descriptor") != std::string::npos;
    EXPECT_EQ(told, closed.ends_with(" >&-") || closed == ">&-") << closed << ": " << result.err;
    fs::remove_all(out);
  }
}

TEST(ClosedStreams, StandardInputAsDataIsAnError) {
  TempFolder folder;
  ProgramResult result = shell("\"$0\"" + quoted(train_arguments("-", folder / "run", 2)) + " <&-");
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("standard input: Bad file descriptor"), std::string::npos) << result.err;
}

TEST(FullStandardOutput, IsAnErrorWhereOutputIsWhatWasAskedFor) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text()), out = folder / "run";
  run(train_arguments(data, out, 2));
  auto expect = [&](const Arguments& arguments, const char* program) {
    for (std::string full : {">/dev/full", ">&-"}) {
      ProgramResult result = shell("\"$0\"" + quoted(arguments) + " " + full, program);
      EXPECT_EQ(result.code, 2) << quoted(arguments) << full;
      EXPECT_NE(result.err.find("standard output: "), std::string::npos) << result.err;
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  };
  expect({"--help"}, testing::gpt_program());
  expect({"train", "--help"}, testing::gpt_program());
  expect({"sample", "--run", out, "--sample-tokens", "3"}, testing::gpt_program());
  expect({"eval", "--run", out}, testing::gpt_program());
  expect({"--help"}, testing::recompute_program());
  expect(recompute_arguments("verify", {"--steps", "1"}), testing::recompute_program());
  expect(recompute_arguments("compare", {"--recompute", "full", "--rounds", "1", "--out", folder / "c"}),
         testing::recompute_program());
}

TEST(BrokenStandardOutput, DoesNotEndTraining) {
  TempFolder folder;
  std::string data = folder.write("text", tiny_text());
  for (std::string broken : {" >/dev/full", " | true"}) {
    std::string out = folder / "run";
    ProgramResult result = shell("set -o pipefail; \"$0\"" + quoted(train_arguments(data, out, 6)) + broken);
    EXPECT_EQ(result.code, 0) << broken << result.err;
    EXPECT_EQ(train::load_checkpoint(out, false).step, 6);
    EXPECT_FALSE(measurements(out).empty());
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << "told once: " << result.err;
    EXPECT_NE(result.err.find("standard output: "), std::string::npos) << result.err;
    fs::remove_all(out);
  }
}

// A sample that would take hours is seen as it is written, and ends with who reads it.
TEST(BrokenStandardOutput, EndsASampleThatIsShownAsItComes) {
  TempFolder folder;
  const std::string data = folder.write("text", tiny_text()), out = folder / "run";
  run(train_arguments(data, out, 2));
  const ProgramResult result =
      shell("\"$0\"" + quoted({"sample", "--run", out, "--sample-tokens", "100000000"}) + " | head -c 100");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out.size(), 100u);
  // By the signal; or by what it says where whoever started the test ignores that.
  EXPECT_TRUE(result.err.empty() || result.err.find("standard output: Broken pipe") != std::string::npos)
      << result.err;
}

}  // namespace
}  // namespace reprise::apps
