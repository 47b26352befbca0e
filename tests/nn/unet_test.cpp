// UNet against one of PyTorch's layers: from the same weights and batch the same logits, gradients and statistics,
// under the names of Pytorch-UNet. tools/parity_vision.py made the golden files.
#include "reprise/nn/models/unet.h"

#include <fstream>
#include <map>
#include <sstream>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/ops.h"
#include "reprise/io/safetensors.h"
#include "reprise/tests/nn/parity.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::relative_distance;
using testing::test_device;

// Odd sides, so that what was doubled lacks a row or a column.
constexpr int64_t kRows = 33, kColumns = 37;

UNetOptions narrow(UNetUp up) { return {.features = 4, .depth = 2, .up = up}; }

// The golden weights; buffers stay as they are.
void load(UNet& model, io::SafetensorsFile& golden, const std::string& name) {
  NamedTensors state;
  for (const auto& [key, tensor] : model.state_dict())
    state.emplace_back(key, tensor.requires_grad() ? golden.read(name + "/" + key) : tensor.detach().clone());
  model.load_state_dict(state);
}

Tensor images_of(DType dtype) {
  return testing::formula_images({2, 3, kRows, kColumns}).to(dtype).to(test_device());
}

// The mean over pixels; the class of pixel i is i / 5 mod 2.
Tensor loss_of(const Tensor& logits) {
  std::vector<int64_t> classes(size_t(2 * kRows * kColumns));
  for (size_t i = 0; i < classes.size(); ++i) classes[i] = int64_t(i / 5 % 2);
  return cross_entropy(reshape(permute(logits, {0, 2, 3, 1}), {2 * kRows * kColumns, 2}),
                       Tensor::from(classes, {int64_t(classes.size())}).to(test_device()));
}

void expect_pytorchs(const std::string& name, UNetUp up) {
  io::SafetensorsFile golden(testing::golden_path("unet_parity.safetensors"));
  for (DType dtype : {DType::f32, DType::f64}) {
    SCOPED_TRACE(name + (dtype == DType::f64 ? " in f64" : " in f32"));
    UNet model(narrow(up), test_device());
    load(model, golden, name);
    model.to(dtype);
    Tensor logits = model(images_of(dtype));
    loss_of(logits).backward();
    auto expect_close = [&](const std::string& key, const Tensor& got) {
      // What we promise: 1e-5, and where f32 itself is farther from f64, at most twice PyTorch's own distance.
      const double own = golden.read(name + "/own/" + key).item();
      EXPECT_LE(relative_distance(got, golden.read(name + "/" + key)),
                dtype == DType::f64 ? 1e-11 : std::max(1e-5, 2 * own))
          << key << ", PyTorch: " << own;
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

TEST(UNetParity, TransposedConvolutionsArePyTorchs) { expect_pytorchs("transposed", UNetUp::transposed); }
TEST(UNetParity, BilinearInterpolationIsPyTorchs) { expect_pytorchs("bilinear", UNetUp::bilinear); }

TEST(UNetParity, GroupNormIsPyTorchs) {
  io::SafetensorsFile golden(testing::golden_path("unet_parity.safetensors"));
  UNetOptions options = narrow(UNetUp::transposed);
  options.norm = UNetNorm::group;
  options.groups = 2;
  UNet model(options, test_device());
  load(model, golden, "transposed");
  model.to(DType::f64);
  EXPECT_LE(relative_distance(model(images_of(DType::f64)), golden.read("transposed/group_logits")), 1e-11);
}

using State = std::map<std::string, Shape>;

TEST(UNet, HasTheNamesAndShapesOfPytorchUNet) {
  std::map<std::string, State> want;
  std::ifstream file(testing::golden_path("unet_names.txt"));
  State* state = nullptr;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "#") continue;
    if (name == "model") {
      words >> name;
      state = &want[name];
      continue;
    }
    std::vector<int64_t> shape;
    for (int64_t size = 0; words >> size;) shape.push_back(size);
    state->emplace(name, Shape(shape));
  }
  ASSERT_EQ(want.size(), 2u);
  for (UNetUp up : {UNetUp::transposed, UNetUp::bilinear}) {
    State got;
    for (const auto& [name, tensor] : UNet({.features = 8, .up = up}).state_dict())
      got.emplace(name, tensor.shape());
    EXPECT_EQ(got, want.at(up == UNetUp::bilinear ? "bilinear" : "transposed"));
  }
}

TEST(UNet, GivesAnImageOfLogitsForAnySides) {
  for (UNetUp up : {UNetUp::transposed, UNetUp::bilinear}) {
    UNet model({.channels = 1, .classes = 3, .features = 4, .up = up});
    for (const Shape& sides : {Shape{16, 16}, Shape{31, 17}, Shape{18, 47}})
      EXPECT_EQ(model(zeros({2, 1, sides[0], sides[1]})).shape(), (Shape{2, 3, sides[0], sides[1]}));
  }
}

TEST(UNet, RefusesWhatDoesNotFit) {
  expect_error([] { UNet({.channels = 0, .classes = 0}); }, {"UNet", "channel", "got 0", "class"});
  expect_error([] { UNet({.features = 0}); }, {"UNet", "features", "0"});
  expect_error([] { UNet({.depth = 0}); }, {"UNet", "depth", "0"});
  expect_error([] { UNet({.features = 24, .norm = UNetNorm::group}); }, {"features 24", "32 groups"});
  UNet model({.features = 2});
  expect_error([&] { model(zeros({1, 3, 16, 15})); }, {"UNet", "16 x 15", "4 times", "16 x 16"});
  expect_error([&] { model(zeros({1, 1, 16, 16})); }, {"UNet", "(N, 3, H, W)", "(1, 1, 16, 16)"});
  expect_error([&] { model.set_recompute({.kind = RecomputeStrategy::Kind::automatic}); },
               {"UNet", "'auto' needs a memory budget"});
  expect_error([&] { model.set_recompute(parse_strategy("layers:9")); }, {"layer 9", "there are 9"});
}

}  // namespace
}  // namespace reprise::nn
