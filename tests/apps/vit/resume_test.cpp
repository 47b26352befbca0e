// Training of images stops and goes on: the same bits, whatever reads the images.
// labels: end-to-end
#include "reprise/tests/apps/vit/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;

Arguments with(Arguments arguments, const Arguments& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// 90 images less the held-out ones, 12 per step: the end of an epoch lies inside.
TEST(VitResume, AtAnyStepGivesTheBitsOfAnUninterruptedRun) {
  constexpr int steps = 9;
  TempFolder folder;
  std::string data = tiny_images(folder), whole = folder / "whole";
  const Arguments options = {"--accumulate", "2", "--ema", "0.9", "--drop-path", "0.2", "--dropout", "0.1"};
  run_vit(vit_arguments(data, whole, steps, options));
  for (int k : {1, 4, 7}) {
    std::string part = folder / std::to_string(k);
    Arguments arguments = vit_arguments(data, part, steps, options);
    run_vit(with(arguments, {"--stop-after", std::to_string(k)}));
    EXPECT_EQ(train::load_checkpoint(part, true).step, k);
    run_vit(with(arguments, {"--resume", "--workers", "3", "--prefetch", "1"}));
    expect_same_checkpoints(part, whole);
    EXPECT_EQ(measurements(part), measurements(whole)) << "stopped after " << k;
  }
}

// Steps that follow from epochs are kept as such, and go on as such.
TEST(VitResume, EpochsGoOnToo) {
  TempFolder folder;
  std::string data = tiny_images(folder), part = folder / "part", whole = folder / "whole";
  auto in_epochs = [&](const std::string& out) {
    Arguments all = vit_arguments(data, out, 1, {"--warmup", "0", "--eval-every", "0"});
    const auto steps = std::find(all.begin(), all.end(), "--steps");
    all.erase(steps, steps + 2);
    return with(all, {"--epochs", "0.5", "--warmup-epochs", "0.1"});
  };
  run_vit(in_epochs(whole));
  run_vit(with(in_epochs(part), {"--stop-after", "2"}));
  run_vit({"train", "--out", part, "--resume"});
  expect_same_checkpoints(part, whole);
}

TEST(VitResume, NoBitDependsOnThreadsWorkersOrRecompute) {
  TempFolder folder;
  std::string data = tiny_images(folder);
  run_vit(vit_arguments(data, folder / "plain", 3));
  run_vit(vit_arguments(data, folder / "threads", 3, {"--threads", "3", "--workers", "0"}));
  run_vit(vit_arguments(data, folder / "recompute", 3, {"--recompute", "full", "--workers", "2"}));
  expect_same_checkpoints(folder / "threads", folder / "plain");
  expect_same_checkpoints(folder / "recompute", folder / "plain");
}

TEST(VitResume, RefusesOtherDataAndOtherModels) {
  TempFolder folder, other;
  std::string data = tiny_images(folder), out = folder / "run";
  run_vit(with(vit_arguments(data, out, 4), {"--stop-after", "2"}));
  expect_vit_refused({"train", "--out", out, "--resume", "--data", tiny_images(other, 60, 20)},
                     {"--resume", "was started with other options: --data"});
  // The same place, with other images there.
  TempFolder moved;
  std::string there = tiny_images(moved), second = folder / "second";
  run_vit(with(vit_arguments(there, second, 4), {"--stop-after", "2"}));
  tiny_images(moved, 60, 20);
  expect_vit_refused({"train", "--out", second, "--resume"},
                     {"is not the data that the run", "images to train on with checksum"});
  expect_vit_refused({"train", "--out", out, "--resume", "--width", "32"},
                     {"--resume", "--width 16 (now 32)"});
  expect_vit_refused({"train", "--out", out, "--resume", "--recipe", "deit"}, {"--resume", "--recipe"});
  expect_vit_refused({"train", "--out", out, "--resume", "--decode", "fast"},
                     {"--resume", "--decode exact (now fast)"});
}

TEST(VitOptions, AreRefusedBeforeARunFolderIsMade) {
  TempFolder folder;
  std::string data = tiny_images(folder), out = folder / "run";
  expect_vit_refused(vit_arguments(data, out, 1, {"--image", "9"}), {"9", "patch"});
  expect_vit_refused(vit_arguments(data, out, 1, {"--heads", "5"}), {"heads", "5"});
  expect_vit_refused(vit_arguments(data, out, 1, {"--recipe", "magic"}),
                     {"--recipe magic: there are fashion"});
  expect_vit_refused(vit_arguments("idx:" + (folder / "nothing"), out, 1), {"--data", "nothing"});
  expect_vit_refused(vit_arguments(data, out, 1, {"--model", "huge"}), {"--model", "huge"});
  EXPECT_FALSE(std::filesystem::exists(out));
}

}  // namespace
}  // namespace reprise::apps
