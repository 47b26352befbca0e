// reprise-jepa train --loss lejepa from end to end: what training leaves behind, going on to the bit, the probe, and what is
// refused.
// labels: end-to-end
#include "reprise/nn/models/lejepa.h"
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/subset.h"
#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/io/json.h"
#include "reprise/tests/apps/jepa/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

TEST(LeJepaRun, LearnsWithoutLabelsAndIsProbed) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  const std::string printed = run_jepa(lejepa_arguments(
      data, out, 40, {"--lr", "0.01", "--batch", "20", "--eval-every", "10", "--lambda", "0.5"}));
  for (const char* part : {"LeJEPA: 8 x 8 pixels in patches of 2", "projector to 4 features by 16",
                           "2 large and 2 small views of each image", "labels are not looked at",
                           "Done: step 40", "reprise-jepa probe --run"})
    EXPECT_NE(printed.find(part), std::string::npos) << part << " in " << printed;
  const std::vector<double> losses = recorded(out, "val_loss"), deviations = recorded(out, "feature_std");
  ASSERT_EQ(losses.size(), 4u);
  EXPECT_LT(losses.back(), losses.front());
  ASSERT_EQ(deviations.size(), 40u);
  EXPECT_GT(deviations.back(), 2 * deviations.front()) << "of a standard normal distribution it is 1";

  std::set<std::string> parts;
  for (const auto& [name, tensor] : train::load_checkpoint(out, false).parameters)
    parts.insert(name.substr(0, name.find('.')));
  EXPECT_EQ(parts, (std::set<std::string>{"encoder", "hidden", "projection"}));
  const std::string config = io::read_file(out + "/config.toml");
  for (const char* of_ijepa : {"ema", "predictor", "masks", "targets"})
    EXPECT_EQ(config.find(of_ijepa), std::string::npos) << of_ijepa << " in " << config;

  const std::string json_text = run_jepa({"probe", "--run", out, "--json"});
  std::map<std::string, double> values;
  io::JsonReader json(json_text, "probe");
  json.object([&](const std::string& key) { values[key] = json.number(); });
  EXPECT_EQ(values.at("images"), 30);
  EXPECT_GT(values.at("top1"), 0.4) << "a third would be chance";
}

// The first loss is that of the model as it begins: of two large and one small view, around the mean of the large ones.
TEST(LeJepaRun, ComparesTheViewsOfItsImages) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  run_jepa(lejepa_arguments(data, out, 1, {"--local-views", "1", "--seed", "7"}));
  auto all = std::make_shared<data::PixelDataset>(
      data::idx_dataset(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"));
  const data::Subset train = data::hold_out(all, 0.1, 7).first;
  data::RecipeOptions rows{.image = 8, .statistics = {{0.0}, {0.0}}};  // ImageNet's, in gray
  for (size_t c = 0; c < 3; ++c) {
    rows.statistics.mean[0] += data::imagenet_statistics().mean[c] / 3;
    rows.statistics.deviation[0] += data::imagenet_statistics().deviation[c] / 3;
  }
  const data::Pipeline large = data::lejepa_global(rows), small = data::lejepa_local(rows);
  data::ImageLoader loader(train, data::Views{&large, &large, &small}, {.batch = 6, .seed = 7});
  manual_seed(7);
  nn::LeJepa model({.image = 8,
                    .patch = 2,
                    .channels = 1,
                    .width = 16,
                    .layers = 1,
                    .heads = 2,
                    .hidden = 16,
                    .features = 4});
  const Tensor views = reshape(loader.batch(0).images, {3, 6, 1, 8, 8});
  const double want = model.loss(views, nn::sketch_directions(7, 0, 4, 16), 2).item();
  EXPECT_NEAR(recorded(out, "loss").at(0), want, 1e-6);
}

// After a step at a rate of 0 the encoder is the one that the run began with, which the probe makes again.
TEST(LeJepaRun, IsProbedByItsEncoder) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  run_jepa(lejepa_arguments(data, out, 1, {"--lr", "0", "--min-lr", "0", "--seed", "9"}));
  const std::string text = run_jepa({"probe", "--run", out}), mark = "encoder: top-1";
  const size_t first = text.find(mark), second = text.find(mark, first + 1);
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_EQ(text.substr(first, text.find('\n', first) - first),
            text.substr(second, text.find('\n', second) - second));
}

// Images without a difference have features without one.
TEST(LeJepaRun, WarnsOnceOfFeaturesThatCollapsed) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  folder.write("train-images-idx3-ubyte", idx_file({90, 8, 8}, std::string(90 * 64, char(100))));
  Program program(lejepa_arguments(data, folder / "run", 3), "", jepa_program());
  EXPECT_EQ(program.wait(), 0) << program.err();
  const std::string told = program.err(), mark = "the encoder may have collapsed";
  ASSERT_NE(told.find(mark), std::string::npos) << told;
  EXPECT_EQ(told.find(mark), told.rfind(mark)) << told;
}

// 81 images to train on, 12 per step: the end of an epoch lies inside.
TEST(LeJepaResume, AtAnyStepGivesTheBitsOfAnUninterruptedRun) {
  constexpr int steps = 9;
  TempFolder folder;
  const std::string data = tiny_images(folder), whole = folder / "whole";
  const Arguments options = {"--accumulate", "2", "--drop-path",   "0.2",
                             "--layers",     "2", "--local-views", "1"};
  run_jepa(lejepa_arguments(data, whole, steps, options));
  for (int k : {1, 7}) {
    const std::string part = folder / std::to_string(k);
    const Arguments arguments = lejepa_arguments(data, part, steps, options);
    run_jepa(with(arguments, {"--stop-after", std::to_string(k)}));
    EXPECT_EQ(train::load_checkpoint(part, true).step, k);
    run_jepa({"train", "--out", part, "--resume", "--workers", "3", "--prefetch", "1"});
    expect_same_checkpoints(part, whole);
    EXPECT_EQ(measurements(part), measurements(whole)) << "stopped after " << k;
  }
}

TEST(LeJepaResume, NoBitDependsOnThreadsWorkersOrRecompute) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  run_jepa(lejepa_arguments(data, folder / "plain", 3));
  run_jepa(lejepa_arguments(data, folder / "threads", 3, {"--threads", "3", "--workers", "0"}));
  run_jepa(lejepa_arguments(data, folder / "full", 3, {"--recompute", "full"}));
  run_jepa(lejepa_arguments(data, folder / "auto", 3, {"--recompute", "auto:64MiB"}));
  for (const char* run : {"threads", "full", "auto"}) {
    SCOPED_TRACE(run);
    expect_same_checkpoints(folder / run, folder / "plain");
  }
}

// The run keeps its weight decay unless it is told where to go.
TEST(LeJepaOptions, DefaultsAreTheAuthors) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  run_jepa(lejepa_arguments(data, out, 1, {"--weight-decay", "0.02"}));
  const std::string config = io::read_file(out + "/config.toml");
  for (const char* line : {"\nlr = 5e-4\n", "\nstart-lr = 0\n", "\nweight-decay = 0.02\n",
                           "\nfinal-weight-decay = 0.02\n", "\nlambda = 0.05\n", "\nglobal-views = 2\n"})
    EXPECT_NE(config.find(line), std::string::npos) << line << " in " << config;
}

TEST(LeJepaOptions, ThatDoNotApplyAreRefusedBeforeARunFolderIsMade) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  auto refused = [&](const Arguments& more, const std::vector<std::string>& parts) {
    expect_jepa_refused(lejepa_arguments(data, out, 1, more), parts);
  };
  refused({"--ema", "0.9"}, {"--ema: --loss lejepa has no such option"});
  refused({"--masks", "reference", "--predictor-width", "8", "--recompute-predictor", "full"},
          {"--predictor-width", "--masks", "--recompute-predictor", "--loss lejepa has no such option"});
  refused({"--batch", "1"}, {"--batch 1: --loss lejepa needs 2 images"});
  refused({"--global-views", "1", "--local-views", "0"}, {"--global-views 1 and --local-views 0"});
  refused({"--lambda", "1.5"}, {"--lambda"});
  expect_jepa_refused(jepa_arguments(data, out, 1, {"--lambda", "0.1", "--global-views", "3"}),
                      {"--global-views, --lambda: --loss smooth_l1 has no such option"});
  const std::string config = folder.write("options.toml", "lambda = 0.1\n");
  expect_jepa_refused(jepa_arguments(data, out, 1, {"--config", config}),
                      {"--lambda: --loss smooth_l1 has no such option", config + ":1"});
  EXPECT_FALSE(fs::exists(out));
}

TEST(LeJepaOptions, OfAnotherRunAreRefused) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run", other = folder / "other";
  run_jepa(with(lejepa_arguments(data, out, 4), {"--stop-after", "2"}));
  run_jepa(with(jepa_arguments(data, other, 4), {"--stop-after", "2"}));
  const Arguments resume = {"train", "--resume", "--out"};
  expect_jepa_refused(with(resume, {out, "--loss", "smooth_l1"}), {"--loss lejepa (now smooth_l1)"});
  expect_jepa_refused(with(resume, {out, "--change", "--loss", "smooth_l1"}),
                      {"--loss lejepa (now smooth_l1)", "that cannot change"});
  expect_jepa_refused(with(resume, {other, "--loss", "lejepa"}), {"--loss smooth_l1 (now lejepa)"});
  expect_jepa_refused(with(resume, {out, "--local-views", "3"}), {"--local-views 2 (now 3)"});
  expect_jepa_refused(with(resume, {out, "--change", "--features", "8"}),
                      {"--features 4 (now 8)", "that cannot change"});
  expect_jepa_refused(lejepa_arguments(data, folder / "next", 1, {"--init-from", other}),
                      {"--init-from", "hidden.weight"});
  run_jepa(with(resume, {out, "--change", "--lambda", "0.1"}));
  EXPECT_NE(train::load_checkpoint(out, false).model.at("sigreg").find("0.1 along 16 directions"),
            std::string::npos);
}

}  // namespace
}  // namespace reprise::apps
