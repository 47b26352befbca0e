// Every command on models of images: the bits are the same, statistics of norms among them, and what a UNet has not
// is refused.
// not in asan: VerifyImages.HasAStrategyForThePredictor:VerifyImages.PassesForEveryModelAndStrategy
// labels: end-to-end
#include "reprise/tests/apps/recompute/program.h"

namespace reprise::testing {
namespace {

struct Case {
  Arguments model;
};

const Case kVit{{"--model", "vit_tiny", "--layers", "4", "--width", "32", "--heads", "2", "--image", "32",
                 "--patch", "4", "--classes", "5"}};
const Case kResNet{
    {"--model", "resnet18", "--width", "4", "--image", "32", "--classes", "5", "--batch", "4"}};
const Case kUNet{{"--model", "unet", "--width", "4", "--image", "32", "--batch", "2"}};

const Case kJepa{{"--model", "jepa_tiny", "--layers", "4", "--width", "32", "--heads", "2", "--image", "32",
                  "--patch", "4", "--drop-path", "0.1"}};

ProgramResult run_on(const Case& of, const std::string& command, const Arguments& more) {
  Arguments all = {command, "--threads", "1"};
  all.insert(all.end(), of.model.begin(), of.model.end());
  all.insert(all.end(), more.begin(), more.end());
  return run_recompute(all);
}

void expect_has(const ProgramResult& result, const std::vector<std::string>& parts) {
  EXPECT_EQ(result.code, 0) << result.err;
  for (const std::string& part : parts)
    EXPECT_NE(result.out.find(part), std::string::npos) << result.out << "lacks: " << part;
}

TEST(VerifyImages, PassesForEveryModelAndStrategy) {
  for (const Case* of : {&kVit, &kResNet, &kUNet, &kJepa})
    for (const char* strategy : {"full", "selective", "every:2", "sqrt", "offload", "auto:50%"}) {
      SCOPED_TRACE(of->model[1] + ' ' + strategy);
      expect_has(run_on(*of, "verify", {"--recompute", strategy, "--steps", "2"}),
                 {"PASS: losses, gradients, weights and buffers are bit-equal in all 2 steps"});
    }
}

size_t number_behind(const std::string& text, const std::string& what) {
  const size_t at = text.find(what);
  return at == std::string::npos ? 0 : size_t(10 * std::stod(text.substr(at + what.size())));
}

// The strategies of encoder and predictor are two: each alone changes no bit and saves, and the predictor's is the
// encoder's where none is given.
TEST(VerifyImages, HasAStrategyForThePredictor) {
  auto saved = [](const Arguments& strategies) {
    Arguments all = strategies;
    all.insert(all.end(), {"--steps", "2"});
    ProgramResult result = run_on(kJepa, "verify", all);
    expect_has(result, {"PASS", "peak memory"});
    const std::string row = "held for backward";
    const size_t none = number_behind(result.out, row);
    const size_t unit = result.out.find("MiB", result.out.find(row));
    return none - number_behind(result.out.substr(unit), "MiB");
  };
  const size_t both = saved({"--recompute", "full"});
  const size_t encoder = saved({"--recompute", "full", "--recompute-predictor", "none"});
  const size_t predictor = saved({"--recompute", "none", "--recompute-predictor", "full"});
  EXPECT_GT(encoder, 5u);
  EXPECT_GT(predictor, 5u);
  EXPECT_GT(both, std::max(encoder, predictor));
  EXPECT_EQ(saved({"--recompute", "full", "--recompute-predictor", "full"}), both);
}

TEST(VerifyImages, PassesWithDropoutAndDropPath) {
  expect_has(run_on(kVit, "verify", {"--dropout", "0.1", "--drop-path", "0.2", "--steps", "2"}), {"PASS"});
}

TEST(VerifyImages, NamesTheModelAndItsImages) {
  expect_has(run_on(kVit, "verify", {"--steps", "1"}),
             {"Vit: 4 layers, 2 heads, width 32, patches of 4 x 4, 5 classes; 4 images of 32 x 32 per step"});
  expect_has(run_on(kResNet, "verify", {"--steps", "1"}),
             {"ResNet: 8 blocks, width 4, 5 classes; 4 images of 32 x 32 per step"});
  expect_has(run_on(kUNet, "verify", {"--steps", "1"}),
             {"UNet: 9 stages, width 4, 2 classes; 2 images of 32 x 32 per step"});
}

TEST(CommandsOnImages, CountImagesASecondAndNameStages) {
  expect_has(run_on(kUNet, "max-batch", {"--memory-limit", "6MiB", "--steps", "1"}),
             {"images/s", "refused by the limit of 5.4 MiB"});
  expect_has(run_on(kResNet, "max-batch", {"--memory-limit", "4MiB", "--steps", "1"}),  // has no batch of 1
             {"refused by the limit of 3.6 MiB"});
  TempFolder folder;
  const Arguments out = {"--out", folder / "out"};
  expect_has(run_on(kUNet, "profile", out), {"\ninc ", "\ndown1 ", "\ndown4 ", "\nup1 ", "\nup4 "});
  expect_has(run_on(kResNet, "profile", out), {"\nblocks.0 ", "\nblocks.7 "});
}

TEST(CommandsOnImages, CompareAndPlanWhatTheModelHas) {
  TempFolder folder;
  const Arguments compared = {"--rounds", "1", "--out", folder / "out"};
  expect_has(run_on(kUNet, "compare", compared), {"\nfull ", "\nsqrt ", "\nauto:50% "});
  const Arguments planned = {"--recompute", "auto:64MiB", "--rounds", "1", "--out", folder / "out"};
  expect_has(run_on(kResNet, "plan", planned), {"the predicted peak is", "0-7"});
  expect_has(run_on(kUNet, "plan", planned), {"the predicted peak is", "0-8"});
  expect_has(run_on(kJepa, "plan", planned), {"the predicted peak is", "0-3"});
}

TEST(ImageRefusals, NameTheOptionThatTheModelHasNot) {
  auto expect = [](const Case& of, const char* command, const Arguments& more,
                   const std::vector<std::string>& parts) {
    ProgramResult result = run_on(of, command, more);
    EXPECT_EQ(result.code, 2) << result.out << result.err;
    for (const std::string& part : parts)
      EXPECT_NE(result.err.find(part), std::string::npos) << result.err << "lacks: " << part;
  };
  expect(kUNet, "verify", {"--heads", "2"},
         {"--heads is not an option of --model unet", "--width, --image and"});
  expect(kResNet, "verify", {"--data", "text"}, {"--data is not an option of --model resnet18"});
  expect(kVit, "verify", {"--vocab-size", "9"}, {"--vocab-size is not an option of --model vit_tiny"});
  expect({{"--model", "tiny"}}, "verify", {"--image", "32"}, {"--image is not an option of --model tiny"});
  expect({{"--model", "unet", "--image", "15"}}, "verify", {}, {"--image 15", "at least 16"});
  expect({{"--model", "vit_tiny", "--image", "40"}}, "verify", {}, {"--image 40", "--patch 16"});
  expect({{"--model", "vit_tiny", "--heads", "5"}}, "verify", {}, {"--width 192", "--heads 5"});
  expect(kVit, "verify", {"--recompute-predictor", "full"},
         {"--recompute-predictor is not an option of --model vit_tiny"});
  expect(kVit, "verify", {"--recompute", "full+full"},
         {"--recompute full+full: this model has no predictor"});
  expect(kJepa, "verify", {"--recompute", "full+none", "--recompute-predictor", "full"},
         {"both name the predictor's"});
  expect(kJepa, "verify", {"--recompute-predictor", "layers:7"}, {"layer 7", "there are 6"});
  expect(kUNet, "verify", {"--recompute", "layers:9"}, {"layer 9", "there are 9"});
}

}  // namespace
}  // namespace reprise::testing
