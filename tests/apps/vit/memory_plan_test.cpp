// What a run says of its memory before its first step, and the batch that it chooses.
// labels: end-to-end
#include <map>

#include "reprise/apps/common/config_file.h"
#include "reprise/tests/apps/vit/program.h"

namespace reprise::apps {
namespace {

using namespace testing;

TEST(MemoryPlan, IsSaidBeforeTheFirstStep) {
  TempFolder folder;
  const std::string said = run_vit(vit_arguments(tiny_images(folder), folder / "run", 1));
  for (const char* part :
       {"Memory: weights ", "per image: ", " (none), ", " (selective), ", " (full)", "A step of 6: "})
    EXPECT_NE(said.find(part), std::string::npos) << part << " in " << said;
}

TEST(MemoryPlan, BatchAutoKeepsTheRowsOfAnUpdateAndIsKept) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  const Arguments options = {"--batch", "auto", "--memory-limit", "1MiB", "--stop-after", "1"};
  const std::string said = run_vit(vit_arguments(data, out, 2, options));
  const std::string config = io::read_file(out + "/config.toml");
  auto kept = [&](const std::string& key) {
    const size_t at = config.find("\n" + key + " = ");
    return at == std::string::npos ? 0 : std::atoll(config.c_str() + at + key.size() + 4);
  };
  EXPECT_LT(kept("batch"), 128) << said;
  EXPECT_EQ(kept("batch") * kept("accumulate"), 128) << config;
  EXPECT_NE(said.find("Batch: " + std::to_string(kept("batch"))), std::string::npos) << said;
  run_vit({"train", "--out", out, "--resume"});  // without the limit: the batch stays

  Arguments as_chosen = vit_arguments(data, folder / "given", 2, {"--batch", std::to_string(kept("batch"))});
  as_chosen.insert(as_chosen.end(), {"--accumulate", std::to_string(kept("accumulate"))});
  run_vit(as_chosen);
  expect_same_checkpoints(out, folder / "given");
}

TEST(MemoryPlan, BatchAndRecomputeAreChosenTogether) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  const Arguments sizes = {"--layers", "3", "--drop-path", "0.1"};
  Arguments both = sizes;
  both.insert(both.end(), {"--batch", "auto", "--recompute", "auto:1MiB"});
  const std::string said = run_vit(vit_arguments(data, out, 2, both));
  std::map<std::string, std::string> kept = read_config(out + "/config.toml");
  const std::string line = "Batch: " + kept["batch"] + " images, " + kept["accumulate"] +
                           " micro-batches per update, --recompute " + kept["recompute"] + ": ";
  EXPECT_NE(said.find(line), std::string::npos) << said;
  EXPECT_EQ(std::stoll(kept["batch"]) * std::stoll(kept["accumulate"]), 128) << said;
  Arguments written = sizes;
  written.insert(written.end(), {"--batch", kept["batch"], "--accumulate", kept["accumulate"], "--recompute",
                                 kept["recompute"]});
  run_vit(vit_arguments(data, folder / "written", 2, written));
  expect_same_checkpoints(out, folder / "written");
}

// Micro-batches after the first find the gradients of all weights there.
TEST(MemoryPlan, BatchAutoLeavesRoomForGradientsThatAreHeld) {
  TempFolder folder;
  const Arguments options = {"--width", "128", "--layers", "2", "--batch", "auto", "--memory-limit", "16MiB"};
  const std::string said = run_vit(vit_arguments(tiny_images(folder), folder / "run", 1, options));
  EXPECT_NE(said.find(" micro-batches per update"), std::string::npos) << said;
  EXPECT_EQ(said.find(", 1 micro-batches"), std::string::npos) << "all fits, and nothing is tested: " << said;
}

// Sums of many micro-batches take more than the rows that they save.
TEST(MemoryPlan, BatchAutoSaysWhichBatchTakesLeast) {
  TempFolder folder;
  expect_vit_refused(
      vit_arguments(tiny_images(folder), folder / "run", 1,
                    {"--width", "128", "--layers", "2", "--batch", "auto", "--accumulate", "8",
                     "--memory-limit", "10MiB"}),
      {"--batch auto: no batch fits into 10.0 MiB; of those that divide 1024 images per update, ",
       " takes least, ", " MiB with the gradients of "});
}

TEST(MemoryPlan, BatchAutoIsForNewRuns) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  run_vit(vit_arguments(data, out, 3, {"--stop-after", "1"}));
  expect_vit_refused({"train", "--out", out, "--resume", "--change", "--batch", "auto"},
                     {"--batch auto is for a new run"});
}

TEST(MemoryPlan, WhatIsTooLargeIsRefusedBeforeARunFolderIsMade) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  expect_vit_refused(vit_arguments(data, out, 1, {"--batch", "60", "--memory-limit", "1MiB"}),
                     {"--batch 60: a step with --recompute none is predicted to take more than the 1.0 MiB",
                      "; --batch ", " would fit"});
  EXPECT_FALSE(std::filesystem::exists(out));
  expect_vit_refused(vit_arguments(data, out, 1, {"--batch", "auto", "--memory-limit", "64KB"}),
                     {"--batch auto: not even a batch of 1 fits into 0.061 MiB"});
  expect_vit_refused(vit_arguments(data, out, 1, {"--batch", "some"}), {"--batch", "some"});
}

}  // namespace
}  // namespace reprise::apps
