// ResNet against torchvision's: from the same weights and batch the same logits, gradients and statistics; its
// recompute is exact. tools/parity_vision.py made the golden file.
// slow on the device cuda
#include "reprise/nn/models/resnet.h"

#include <cmath>
#include <map>

#include "reprise/autograd/engine.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/parity.h"
#include "reprise/tests/nn/two_updates.h"
#include "reprise/tests/support/golden.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::numbers;
using testing::relative_distance;
using testing::same_bits;
using testing::test_device;

ResNetOptions narrow(ResNetBlock block, ResNetStem stem) {
  return {.classes = 5, .width = 2, .blocks = {1, 1, 1, 1}, .block = block, .stem = stem};
}

// Sides of 11 and 35: odd numbers of rows in the later stages.
Tensor images_of(ResNetStem stem) {
  Tensor images = testing::formula_images({4, 3, 35, 35});
  return stem == ResNetStem::cifar ? slice(slice(images, 2, 0, 11), 3, 0, 11).contiguous() : images;
}

void expect_torchvisions(const std::string& name, ResNetBlock block, ResNetStem stem) {
  io::SafetensorsFile golden(testing::golden_path("resnet_parity.safetensors"));
  for (DType dtype : {DType::f32, DType::f64}) {
    SCOPED_TRACE(name + (dtype == DType::f64 ? " in f64" : " in f32"));
    ResNet model(narrow(block, stem), test_device());
    NamedTensors state;
    for (const auto& [key, tensor] : model.state_dict())
      state.emplace_back(key,
                         tensor.requires_grad() ? golden.read(name + "/" + key) : tensor.detach().clone());
    model.load_state_dict(state);
    model.to(dtype);
    Tensor logits = model(images_of(stem).to(dtype).to(test_device()));
    Tensor targets = Tensor::from<int64_t>({4, 0, 2, 1}, {4}).to(test_device());
    cross_entropy(logits, targets).backward();
    auto expect_close = [&](const std::string& key, const Tensor& got) {
      Tensor exact = golden.read(name + "/f64/" + key), rounded = golden.read(name + "/" + key);
      if (dtype == DType::f64) {
        EXPECT_LE(relative_distance(got, exact), 1e-11) << key;
        return;
      }
      // What we promise: 1e-5, and where f32 itself is farther from f64, at most twice PyTorch's own distance.
      const double own = relative_distance(rounded, exact);
      EXPECT_LE(relative_distance(got, exact), std::max(1e-5, 2 * own)) << key << ", PyTorch: " << own;
    };
    expect_close("logits", logits);
    for (const auto& [key, tensor] : model.state_dict()) {
      if (tensor.requires_grad())
        expect_close("grad/" + key, tensor.grad());
      else
        EXPECT_LE(relative_distance(tensor, golden.read(name + "/after/" + key)), 1e-5) << key;
    }
  }
}

TEST(ResNetParity, BasicBlocksBehindACifarStemAreTorchvisions) {
  expect_torchvisions("basic", ResNetBlock::basic, ResNetStem::cifar);
}

TEST(ResNetParity, BottlenecksBehindAnImagenetStemAreTorchvisions) {
  expect_torchvisions("bottleneck", ResNetBlock::bottleneck, ResNetStem::imagenet);
}

// Parameters of torchvision's resnet18, 34 and 50, counted on models that are an eighth as wide.
int64_t parameters_at_full_width(const char* depth) {
  ResNetOptions options = resnet_preset(depth);
  const int64_t full = options.width, narrow_by = 8;
  options.width /= narrow_by;
  int64_t count = 0;
  for (const auto& [name, p] : ResNet(options).named_parameters()) {
    // The stem's inputs and the classes have the size they have.
    const bool grows_once = p.rank() == 1 || name == "conv1.weight" || name == "fc.weight";
    count += name == "fc.bias" ? p.numel() : p.numel() * (grows_once ? narrow_by : narrow_by * narrow_by);
  }
  EXPECT_EQ(full, 64);
  return count;
}

TEST(ResNet, HasTorchvisionsParameters) {
  EXPECT_EQ(parameters_at_full_width("18"), 11'689'512);
  EXPECT_EQ(parameters_at_full_width("34"), 21'797'672);
  EXPECT_EQ(parameters_at_full_width("50"), 25'557'032);
  expect_error([] { resnet_preset("19"); }, {"resnet_preset", "'19'", "18, 34 or 50"});
}

TEST(ResNet, StartsNormalByFanOutAndWithZeroLastNormsIfAskedTo) {
  manual_seed(3);
  ResNetOptions options{.classes = 5, .width = 16, .blocks = {1, 1}, .block = ResNetBlock::bottleneck};
  options.zero_init_last = true;
  ResNet model(options);
  for (const auto& [name, p] : model.named_parameters()) {
    const double deviation = std::sqrt(mean(square(p.detach())).item());
    double want = p.rank() == 4 ? std::sqrt(2.0 / double(p.size(0) * p.size(2) * p.size(3))) : deviation;
    if (name.ends_with("bn3.weight")) want = 0;
    if (name.ends_with("bn1.weight")) want = 1;
    EXPECT_NEAR(deviation, want, 5 * want / std::sqrt(2.0 * double(p.numel()))) << name;
  }
}

TensorList two_updates(const char* strategy) {
  manual_seed(5);
  ResNetOptions options = narrow(ResNetBlock::bottleneck, ResNetStem::cifar);
  options.recompute = parse_strategy(strategy);
  ResNet model(options, test_device());
  optim::Sgd optimizer(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  return testing::two_updates(model, optimizer, 1, [&](uint64_t step) {
    return cross_entropy(model(numbers({3, 3, 9, 9}, step)),
                         Tensor::from<int64_t>({4, 0, 2}, {3}).to(test_device()));
  });
}

TEST(ResNetRecompute, TrainsToTheSameBitsByEveryStrategy) {
  TensorList want = two_updates("none");
  for (const char* strategy : {"full", "selective", "every:2", "segments:3", "layers:0,3", "offload"}) {
    SCOPED_TRACE(strategy);
    testing::NoLeaks guard;
    TensorList got = two_updates(strategy);
    EXPECT_TRUE(same_bits(got, want));
  }
}

// timm's group_matcher: the stem, then each block of each stage, then the head.
TEST(ResNet, KnowsTheDepthOfItsParameters) {
  ResNet model({.classes = 5, .width = 2, .blocks = {1, 2}});
  std::map<int64_t, int> counts;
  for (const auto& [name, parameter] : model.named_parameters()) ++counts[model.layer_of(name)];
  // A convolution and two vectors of a norm; twice that; as much with a shortcut; fc.
  EXPECT_EQ(counts, (std::map<int64_t, int>{{0, 3}, {1, 6}, {2, 9}, {3, 6}, {4, 2}}));
  EXPECT_EQ(model.layer_of("blocks.1.downsample.0.weight"), 2);
  for (const std::string name : {"layer1.0.conv1.weight", "blocks.x.conv1.weight", "blocks.99.conv1.weight"})
    expect_error([&] { model.layer_of(name); }, {"no parameter " + name});
}

TEST(ResNet, RefusesWhatDoesNotFit) {
  expect_error([] { ResNet({.classes = 0}); }, {"ResNet", "0 classes"});
  expect_error([] { ResNet({.blocks = {}}); }, {"ResNet", "at least one stage"});
  expect_error([] { ResNet({.blocks = {2, 0}}); }, {"ResNet", "at least one block", "0"});
  ResNet model(narrow(ResNetBlock::basic, ResNetStem::cifar));
  expect_error([&] { model(zeros({2, 1, 8, 8})); }, {"ResNet", "(N, 3, H, W)", "(2, 1, 8, 8)"});
}

}  // namespace
}  // namespace reprise::nn
