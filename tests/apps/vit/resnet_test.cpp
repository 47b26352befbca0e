// reprise-vit with a ResNet: all that it does with a vision transformer.
// not in asan: VitResNet.ConvertsToTorchvisionsNames
// labels: end-to-end
#include "reprise/nn/models/resnet.h"

#include <set>

#include "reprise/autograd/ops.h"
#include "reprise/data/datasets/idx_dataset.h"
#include "reprise/data/datasets/subset.h"
#include "reprise/data/loader.h"
#include "reprise/data/recipes.h"
#include "reprise/io/images/png.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/models/vit.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/nn/optim/schedule.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/apps/vit/program.h"
#include "reprise/tests/support/compare.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/checkpoint/manifest.h"

namespace reprise::apps {
namespace {

using namespace testing;
namespace fs = std::filesystem;

const nn::ResNetOptions tiny{.channels = 1, .classes = 3, .width = 4, .stem = nn::ResNetStem::cifar};

void write_weights(const std::string& path, const nn::Module& model) {
  nn::NamedTensors state;
  for (const auto& [name, tensor] : model.state_dict()) state.emplace_back(name, tensor.detach());
  io::write_safetensors(path, io::NamedViews(state.begin(), state.end()));
}

void convert(const Arguments& arguments) {
  Program program(arguments, "", convert_program());
  EXPECT_EQ(program.wait(), 0) << program.err();
}

Tensor weight_in(const std::string& run, const std::string& name) {
  for (const auto& [known, tensor] : train::load_checkpoint(run, false).parameters)
    if (known == name) return tensor;
  throw Error("no " + name);
}

// ImageNet's statistics, as a run of one channel has them.
data::Statistics gray() {
  data::Statistics statistics{{0.0}, {0.0}};
  for (size_t c = 0; c < 3; ++c) {
    statistics.mean[0] += data::imagenet_statistics().mean[c] / 3;
    statistics.deviation[0] += data::imagenet_statistics().deviation[c] / 3;
  }
  return statistics;
}

TEST(VitResNet, LearnsLinesAndAnswersWithoutAttention) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  const std::string printed = run_vit(resnet_arguments(
      data, out, 100,
      {"--recipe", "fashion", "--stem", "cifar", "--optimizer", "sgd", "--lr", "0.1", "--batch", "12"}));
  for (const char* part : {"ResNet: 8 basic blocks, width 4, stem of CIFAR", "3 classes", "Done: step 100",
                           "Test: top-1 ", "report.html"})
    EXPECT_NE(printed.find(part), std::string::npos) << part << " in " << printed;
  const std::string said = run_vit({"eval", "--run", out});
  const size_t at = printed.find("Test: ") + 6;
  EXPECT_EQ(said.substr(0, said.find('\n')), printed.substr(at, printed.find('\n', at) - at));
  EXPECT_GT(std::atof(said.c_str() + std::string("top-1 ").size()), 60) << "a third would be chance";

  EXPECT_FALSE(fs::exists(out + "/attention.svg"));
  const std::string page = bytes_of_file(out + "/report.html");
  EXPECT_NE(page.find("Mistakes"), std::string::npos);
  EXPECT_EQ(page.find("Attention"), std::string::npos);

  io::Image column;
  column.resize(8, 8, 1);
  for (int64_t y = 0; y < 8; ++y) column.row(y)[3] = 230;
  const std::string answer =
      run_vit({"predict", folder.write("column.png", io::encode_png(column)), "--run", out, "--json"});
  EXPECT_NE(answer.find("{\"name\": \"0\", \"probability\": "), std::string::npos) << answer;
}

// Two steps by hand: the rate is 0.1 for 256 rows, falling by half a wave, and decay adds to the gradient of matrices.
TEST(VitResNet, TheRecipeIsSgdWithMomentum) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  run_vit(resnet_arguments(data, out, 3, {"--seed", "7", "--stop-after", "2"}));

  auto all = std::make_shared<data::PixelDataset>(
      data::idx_dataset(folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"));
  const data::Subset train = data::hold_out(all, 0.1, 7).first;
  const data::Pipeline pipeline = data::cifar_train({.image = 8, .statistics = gray()});
  data::ImageLoader loader(train, pipeline, {.batch = 6, .seed = 7});
  manual_seed(7);
  nn::ResNet model(tiny);
  const double lr = 0.1 * 6 / 256;
  optim::Sgd sgd(optim::decay_matrices(model, lr, 5e-4), {.momentum = 0.9});
  for (int64_t step : {0, 1}) {
    sgd.set_lr(optim::Schedule{.lr = lr, .steps = 3}(step));
    const data::ImageBatch batch = loader.batch(step);
    cross_entropy(model(batch.images), batch.targets).backward();
    sgd.step();
    sgd.zero_grad();
  }
  for (const auto& [name, tensor] : model.state_dict())  // f32, in the same order but for the groups
    EXPECT_TRUE(is_close(weight_in(out, name), tensor.detach(), 1e-7)) << name;
}

// What is kept beside weights of 16 bits is the optimizer's, whichever it is.
TEST(VitResNet, SgdKeepsTheDigitsThatMasterSays) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  auto arguments = [&](const std::string& master) {
    return resnet_arguments(data, folder / master, 2,
                            {"--optimizer", "sgd", "--precision", "bf16-pure", "--master", master});
  };
  for (const auto& [master, kept] :
       {std::pair("f32", "fc.weight:master"), {"split", "fc.weight:remainder"}, {"stochastic", "seed"}}) {
    run_vit(arguments(master));
    std::set<std::string> names;
    for (const auto& [name, x] : train::load_checkpoint(folder / master, true).optimizer) names.insert(name);
    for (const char* name : {"fc.weight:master", "fc.weight:remainder", "seed"})
      EXPECT_EQ(names.contains(name), std::string(name) == kept) << name << " of " << master;
    EXPECT_TRUE(names.contains("fc.weight:velocity")) << master;
    EXPECT_EQ(weight_in(folder / master, "fc.weight").dtype(), DType::bf16);
  }
  expect_vit_refused(
      resnet_arguments(data, folder / "no", 1,
                       {"--optimizer", "sgd", "--precision", "bf16-pure", "--moments", "bf16"}),
      {"--moments bf16 is for --optimizer adamw, not sgd"});
}

TEST(VitResNet, GoesOnToTheSameBitsStatisticsAndAverages) {
  TempFolder folder;
  const std::string data = tiny_images(folder), whole = folder / "whole";
  const Arguments options = {"--accumulate", "2", "--ema", "0.9", "--nesterov"};
  run_vit(resnet_arguments(data, whole, 6, options));
  for (int k : {1, 4}) {
    const std::string part = folder / std::to_string(k);
    Arguments arguments = resnet_arguments(data, part, 6, options);
    arguments.insert(arguments.end(), {"--stop-after", std::to_string(k)});
    run_vit(arguments);
    run_vit({"train", "--out", part, "--resume", "--workers", "2", "--recompute", "full"});
    expect_same_checkpoints(part, whole);
    EXPECT_EQ(measurements(part), measurements(whole)) << "stopped after " << k;
  }
  EXPECT_FALSE(is_close(weight_in(whole, "bn1.running_mean"), zeros({4}), 1e-3));
  expect_vit_refused({"train", "--out", whole, "--resume", "--model", "resnet34"}, {"--resume", "--model"});
  expect_vit_refused({"train", "--out", whole, "--resume", "--patch", "2"}, {"--patch", "resnet18"});
}

TEST(VitResNet, OptionsOfAVitAreRefusedBeforeARunFolderIsMade) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  for (const auto& [option, value] : {std::pair{"--patch", "4"},
                                      {"--heads", "2"},
                                      {"--layers", "2"},
                                      {"--pool", "avg"},
                                      {"--registers", "2"},
                                      {"--positions", "sincos"},
                                      {"--layer-scale", "1"},
                                      {"--drop-path", "0.1"},
                                      {"--dropout", "0.1"}})
    expect_vit_refused(resnet_arguments(data, out, 1, {option, value}),
                       {option, "--model resnet18 has no such option"});
  expect_vit_refused(resnet_arguments(data, out, 1, {"--stem", "conv"}),
                     {"--stem conv", "imagenet or cifar"});
  expect_vit_refused(resnet_arguments(data, out, 1, {"--model", "resnet19"}), {"--model", "18, 34 or 50"});
  const std::string config = folder.write("patch.toml", "patch = 4\n");
  expect_vit_refused(resnet_arguments(data, out, 1, {"--config", config}), {"--patch", "patch.toml:1"});
  expect_vit_refused(vit_arguments(data, out, 1, {"--stem", "cifar"}), {"--stem cifar", "patch or conv"});
  EXPECT_FALSE(fs::exists(out));
}

// The network of a recipe is left to --model, what trains it is not.
TEST(VitResNet, RecipesTrainTheOtherNetworkToo) {
  TempFolder folder;
  const std::string data = tiny_images(folder), vit = folder / "vit", resnet = folder / "resnet";
  run_vit(vit_arguments(data, vit, 1, {"--recipe", "resnet", "--model", "tiny", "--channels", "1"}));
  const std::string of_vit = bytes_of_file(vit + "/config.toml");
  for (const char* line : {"optimizer = 'sgd'", "decay = 'step'", "stem = 'conv'", "patch = 2"})
    EXPECT_NE(of_vit.find(line), std::string::npos) << line << " in " << of_vit;
  run_vit(resnet_arguments(data, resnet, 1, {"--recipe", "deit3", "--decay", "step"}));
  const std::string of_resnet = bytes_of_file(resnet + "/config.toml");
  for (const char* line : {"optimizer = 'lamb'", "loss = 'bce'", "stem = 'imagenet'", "width = 4"})
    EXPECT_NE(of_resnet.find(line), std::string::npos) << line << " in " << of_resnet;
  EXPECT_EQ(of_resnet.find("layer-scale"), std::string::npos) << of_resnet;
}

TEST(VitResNet, StartsFromTorchvisionsNamesAndSaysOtherStatistics) {
  TempFolder folder;
  const std::string data = tiny_images(folder);
  nn::ResNetOptions five = tiny;
  five.classes = 5;
  nn::ResNet other(five);
  fs::create_directory(folder / "weights");
  const std::string file = folder / "weights/model.safetensors";
  write_weights(file, other);
  auto from = [&](const std::string& source, const std::string& out) {
    return run_vit(resnet_arguments(data, folder / out, 1, {"--init-from", source, "--lr", "0"}));
  };
  const std::string silent = from(file, "silent");
  EXPECT_NE(silent.find("the head is for 5 classes: it is made anew for 3"), std::string::npos) << silent;
  EXPECT_EQ(silent.find("deviation"), std::string::npos) << silent;
  for (const auto& [name, tensor] : other.named_parameters())
    if (!name.starts_with("fc.") && !name.starts_with("blocks.")) {
      EXPECT_TRUE(same_bits(weight_in(folder / "silent", name), tensor.detach())) << name;
    }

  folder.write("weights/config.json", R"({"pretrained_cfg": {"mean": [0.5], "std": [0.25]}})");
  const std::string said = from(file, "said");
  EXPECT_NE(said.find("the weights are for pixels of mean 0.5 and deviation 0.25, this run's have 0.4"),
            std::string::npos)
      << said;
  EXPECT_EQ(from(folder / "said", "again").find("the weights are for pixels"), std::string::npos);

  const std::string run = folder / "said";
  expect_vit_refused(vit_arguments(data, folder / "vit", 1, {"--init-from", run}), {"no vision transformer"});
  write_weights(file, nn::Vit({.image = 8, .patch = 4, .classes = 3, .width = 8, .layers = 1, .heads = 2}));
  expect_vit_refused(resnet_arguments(data, folder / "no", 1, {"--init-from", file}), {"of no ResNet"});
}

TEST(VitResNet, BatchAutoFitsTheMemoryAndChangesNoBit) {
  TempFolder folder;
  const std::string data = tiny_images(folder), out = folder / "run";
  const std::string said = run_vit(resnet_arguments(
      data, out, 2, {"--batch", "auto", "--memory-limit", "1500KiB", "--recompute", "full"}));
  const std::string config = bytes_of_file(out + "/config.toml");
  auto kept = [&](const std::string& key) {
    const size_t at = config.find("\n" + key + " = ");
    return at == std::string::npos
               ? std::string()
               : config.substr(at + key.size() + 4, config.find('\n', at + 1) - at - key.size() - 4);
  };
  EXPECT_NE(kept("accumulate"), "1") << "all fits, and nothing is tested: " << said;
  run_vit(resnet_arguments(data, folder / "given", 2,
                           {"--batch", kept("batch"), "--accumulate", kept("accumulate")}));
  expect_same_checkpoints(out, folder / "given");
}

TEST(VitResNet, ConvertsToTorchvisionsNames) {
  TempFolder folder;
  const std::string data = tiny_images(folder), run = folder / "run";
  run_vit(resnet_arguments(data, run, 1, {"--width", "64", "--stem", "imagenet", "--keep", "1"}));
  convert({run, "--to", "timm", "--out", folder / "timm"});
  nn::ResNetOptions wide = nn::resnet_preset("18");
  wide.channels = 1;
  wide.classes = 3;
  io::SafetensorsFile written(folder / "timm/model.safetensors");
  const nn::NamedTensors wanted = nn::ResNet(wide).state_dict();
  EXPECT_EQ(written.tensors().size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    ASSERT_TRUE(written.find(name).has_value()) << name;
    EXPECT_EQ(written.read(name).shape(), tensor.shape()) << name;
  }
  const std::string config = bytes_of_file(folder / "timm/config.json");
  for (const char* part : {"\"architecture\": \"resnet18\"", "\"mean\": [0.449", "\"input_size\": [1, 8, 8]",
                           "\"label_names\": [\"0\", \"1\", \"2\"]"})
    EXPECT_NE(config.find(part), std::string::npos) << part << " in " << config;
}

// Larger images than the model's: bilinear, and the middle cut out.
TEST(VitResNet, EvaluatesAsTorchvisionDoes) {
  TempFolder folder;
  const std::string data = tiny_images(folder), run = folder / "run";
  run_vit(resnet_arguments(data, run, 5, {"--crop", "0.5"}));
  nn::ResNet model(tiny);
  model.load_state_dict(train::load_checkpoint(run, false).parameters);
  model.eval();
  const data::PixelDataset test =
      data::idx_dataset(folder / "t10k-images-idx3-ubyte", folder / "t10k-labels-idx1-ubyte");
  const data::Pipeline pipeline = data::resnet_eval({.image = 8, .crop_pct = 0.5, .statistics = gray()});
  data::EvaluationBatches batches(test, pipeline, 30);
  const data::EvaluationBatches::Batch all = batches.at(0);
  const double loss = cross_entropy(model(all.images), Tensor::from<int64_t>(all.labels, {30})).item();
  const std::string said = run_vit({"eval", "--run", run, "--json"});
  const size_t at = said.find("\"loss\": ");
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_NEAR(std::atof(said.c_str() + at + 8), loss, 2e-6);  // 6 digits are printed
}

// Averages, and all that the description says: what is converted answers as the run does.
TEST(VitResNet, IsTheSameClassifierOnceConverted) {
  TempFolder folder;
  const std::string run = folder / "run", ours = folder / "ours";
  run_vit(resnet_arguments(tiny_images(folder), run, 3, {"--ema", "0.5"}));
  convert({run, "--to", "reprise", "--out", ours});
  io::Image gray;
  gray.resize(8, 8, 1);
  const std::string picture = folder.write("gray.png", io::encode_png(gray));
  EXPECT_EQ(run_vit({"predict", picture, "--run", ours}), run_vit({"predict", picture, "--run", run}));
  // Of weights alone the names of the classes and the size of images are not known.
  write_weights(folder / "r.safetensors", nn::ResNet(tiny));
  convert({folder / "r.safetensors", "--to", "reprise", "--out", folder / "alone"});
  const std::string answer = run_vit({"predict", picture, "--run", folder / "alone"});
  EXPECT_NE(answer.find(" 0 "), std::string::npos) << answer;
}

// Before anything of such a size is made.
TEST(VitResNet, DescriptionsThatDoNotFitTheTensorsAreErrors) {
  TempFolder folder;
  write_weights(folder / "r.safetensors", nn::ResNet(tiny));
  convert({folder / "r.safetensors", "--to", "reprise", "--out", folder / "good"});
  const io::SafetensorsFile good(folder / "good/model.safetensors");
  nn::NamedTensors tensors;
  for (const io::SafetensorInfo& info : good.tensors()) tensors.emplace_back(info.name, good.read(info.name));
  for (const auto& [key, value, part] : {std::tuple{"blocks", "2 2 2 3", "other blocks"},
                                         {"stem", "imagenet", "another stem"},
                                         {"width", "9999999", "(3, 1, 9999999)"},
                                         {"architecture", "unet", "\"unet\", not resnet"},
                                         {"image", "100000", "100000 pixels"},
                                         {"blocks", "2 two", "\"two\""}}) {
    const std::string bad = folder / "bad";
    fs::create_directories(bad);
    auto metadata = good.metadata();
    metadata[std::string("model.") + key] = value;
    io::write_safetensors(bad + "/model.safetensors", io::NamedViews(tensors.begin(), tensors.end()),
                          metadata);
    train::write_manifest(bad);
    expect_vit_refused({"eval", "--run", bad}, {"--run", part});
  }
}

}  // namespace
}  // namespace reprise::apps
