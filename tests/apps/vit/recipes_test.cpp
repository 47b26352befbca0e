// Recipes from end to end, on a tiny model.
// labels: end-to-end
#include <cmath>
#include <set>
#include <tuple>

#include "reprise/autograd/ops.h"
#include "reprise/core/random.h"
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/subset.h"
#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/nn/models/vit.h"
#include "reprise/tests/apps/vit/program.h"
#include "reprise/train/checkpoint.h"

namespace reprise::apps {
namespace {

using namespace testing;

// DeiT III's, in gray and on one narrow block.
Arguments deit3(const std::string& data, const std::string& out, int steps, const Arguments& more = {}) {
  Arguments all = {"--recipe", "deit3", "--channels", "1", "--seed", "7", "--drop-path", "0"};
  all.insert(all.end(), more.begin(), more.end());
  return vit_arguments(data, out, steps, all);
}

std::vector<double> losses_of(const std::string& run) {
  std::vector<double> losses;
  for (const io::RunRecord& record : io::read_run_log(run + "/metrics.jsonl"))
    for (const auto& [name, value] : record.metrics)
      if (name == "loss") losses.push_back(value);
  return losses;
}

// By hand, in f64: a class that a mixed image has some of is there.
double bce_of(const std::vector<float>& logits, const std::vector<float>& targets) {
  double sum = 0;
  for (size_t i = 0; i < logits.size(); ++i)
    sum += std::log1p(std::exp(double(targets[i] > 0 ? -logits[i] : logits[i])));
  return sum / double(logits.size());
}

TEST(VitRecipes, Deit3TrainsByLambOnYesOrNo) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  run_vit(deit3(data, out, 3));
  const train::Checkpoint saved = train::load_checkpoint(out, true);
  EXPECT_EQ(saved.model.at("no_embed_class"), "1");
  EXPECT_EQ(saved.model.at("layer_scale"), "1e-04");
  EXPECT_NE(saved.model.at("pipeline").find("three_augment, color_jitter"), std::string::npos);
  for (const auto& [name, tensor] : saved.optimizer) EXPECT_NE(name, "updates") << "it is AdamW's state";

  auto all = std::make_shared<data::PixelDataset>(
      data::idx_dataset(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"));
  const data::Subset train = data::hold_out(all, 0.1, 7).first;
  data::Statistics statistics{{0.0}, {0.0}};  // ImageNet's, in gray
  for (size_t c = 0; c < 3; ++c) {
    statistics.mean[0] += data::imagenet_statistics().mean[c] / 3;
    statistics.deviation[0] += data::imagenet_statistics().deviation[c] / 3;
  }
  const data::Pipeline pipeline = data::deit3_train({.image = 8, .statistics = statistics});
  data::ImageLoader loader(train, pipeline, {.batch = 6, .seed = 7, .repeats = 3});
  manual_seed(7);
  nn::Vit model({.image = 8,
                 .patch = 2,
                 .channels = 1,
                 .classes = 3,
                 .width = 16,
                 .layers = 1,
                 .heads = 2,
                 .no_embed_class = true,
                 .layer_scale = 1e-4});
  const data::ImageBatch batch = loader.batch(0);
  const double want = bce_of(model(batch.images).to_vector<float>(), batch.targets.to_vector<float>());
  EXPECT_NEAR(losses_of(out).at(0), want, 1e-6);
}

TEST(VitRecipes, Deit3GoesOnToTheSameBits) {
  TempFolder folder;
  const std::string data = tiny_images(folder), whole = folder / "whole", part = folder / "part";
  run_vit(deit3(data, whole, 4));
  run_vit(deit3(data, part, 4, {"--stop-after", "2"}));
  run_vit({"train", "--out", part, "--resume"});
  expect_same_checkpoints(part, whole);
  EXPECT_EQ(measurements(part), measurements(whole));
  expect_vit_refused({"train", "--out", part, "--resume", "--change", "--optimizer", "adamw"},
                     {"--resume", "--optimizer lamb (now adamw)"});
}

// The preset says what is left open; the run is read back as the model that it was.
TEST(VitRecipes, Vit5IsOfItsOwnParts) {
  TempFolder folder;
  const std::string data = tiny_images(folder), whole = folder / "whole", part = folder / "part";
  auto vit5 = [&](const std::string& out, const Arguments& more) {
    Arguments all = {"--recipe", "vit5", "--channels", "1", "--registers", "2", "--seed", "7"};
    all.insert(all.end(), more.begin(), more.end());
    return vit_arguments(data, out, 4, all);
  };
  run_vit(vit5(whole, {}));
  const train::Checkpoint saved = train::load_checkpoint(whole, true);
  for (const char* flag : {"rope", "qk_norm", "rms_norm", "no_embed_class"})
    EXPECT_EQ(saved.model.at(flag), "1") << flag;
  EXPECT_EQ(std::tuple(saved.model.at("qkv_bias"), saved.model.at("registers"), saved.model.at("width")),
            std::tuple("0", "2", "16"));
  std::set<std::string> names;
  for (const auto& [name, tensor] : saved.parameters) names.insert(name);
  EXPECT_TRUE(names.contains("blocks.0.attn.q_norm.weight") && !names.contains("blocks.0.attn.qkv.bias") &&
              !names.contains("norm.bias"));
  run_vit(vit5(part, {"--stop-after", "2"}));
  run_vit({"train", "--out", part, "--resume"});
  expect_same_checkpoints(part, whole);
  EXPECT_NE(run_vit({"eval", "--run", whole}).find("top-1"), std::string::npos);
  run_vit(vit5(folder / "more", {"--init-from", whole}));
  expect_vit_refused({"train", "--out", part, "--resume", "--change", "--norm", "layer"},
                     {"--resume", "--norm rms (now layer)"});
}

TEST(VitRecipes, BceKnowsNoSmoothing) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  expect_vit_refused(vit_arguments(data, folder / "run", 1, {"--loss", "bce"}),
                     {"--smoothing 0.1", "--loss bce"});
  run_vit(vit_arguments(data, folder / "classes", 1, {"--loss", "bce", "--smoothing", "0"}));
  EXPECT_NEAR(losses_of(folder / "classes").at(0), std::log(2.0), 0.05) << "three near 0, yes or no";
}

}  // namespace
}  // namespace reprise::apps
