// FeaturePyramid against torchvision's: names, results, gradients; and maps from tokens against what they are made of.
#include "reprise/nn/models/feature_pyramid.h"

#include <algorithm>

#include "reprise/autograd/engine.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/io/safetensors.h"
#include "reprise/nn/models/vit.h"
#include "reprise/tests/nn/parity.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/golden.h"
#include "reprise/tests/support/test_device.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::relative_distance;
using testing::test_device;

TEST(FeaturePyramidParity, ResultsAndGradientsAreTorchvisions) {
  io::SafetensorsFile golden(testing::golden_path("feature_pyramid_parity.safetensors"));
  for (DType dtype : {DType::f32, DType::f64}) {
    const double tolerance = dtype == DType::f64 ? 1e-11 : 1e-5;
    FeaturePyramid model({2, 3, 4}, 5, test_device());
    NamedTensors state;
    for (const auto& [key, parameter] : model.state_dict()) state.emplace_back(key, golden.read(key));
    model.load_state_dict(state);
    model.to(dtype);
    TensorList maps;
    for (const char* key : {"in/0", "in/1", "in/2"})
      maps.push_back(golden.read(key).to(dtype).to(test_device()).set_requires_grad());
    TensorList results = model(maps);
    ASSERT_EQ(results.size(), 3u);
    Tensor loss = zeros({}, dtype, test_device());
    for (size_t i = 0; i < results.size(); ++i) {
      EXPECT_LE(relative_distance(results[i], golden.read("out/" + std::to_string(i))), tolerance) << i;
      loss = loss + sum(square(results[i]));
    }
    loss.backward();
    for (const auto& [key, parameter] : model.named_parameters())
      EXPECT_LE(relative_distance(parameter.grad(), golden.read("grad/" + key)), tolerance) << key;
    for (size_t i = 0; i < maps.size(); ++i)
      EXPECT_LE(relative_distance(maps[i].grad(), golden.read("grad/in/" + std::to_string(i))), tolerance)
          << i;
  }
}

TEST(FeaturePyramid, HasTorchvisionsNamesAndStart) {
  manual_seed(3);
  FeaturePyramid model({16, 32}, 24);
  std::vector<std::string> names;
  for (const auto& [name, parameter] : model.state_dict()) {
    names.push_back(name);
    double largest = 0;
    for (double value : parameter.detach().to_vector<double>()) largest = std::max(largest, std::abs(value));
    const bool is_bias = name.ends_with("bias");
    const double bound =
        is_bias ? 0 : std::sqrt(3.0 / double(parameter.size(1) * parameter.size(2) * parameter.size(3)));
    EXPECT_LE(largest, bound) << name;
    EXPECT_GE(largest, 0.95 * bound) << name;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"inner_blocks.0.0.weight", "inner_blocks.0.0.bias",
                                             "inner_blocks.1.0.weight", "inner_blocks.1.0.bias",
                                             "layer_blocks.0.0.weight", "layer_blocks.0.0.bias",
                                             "layer_blocks.1.0.weight", "layer_blocks.1.0.bias"}));
}

// By loops, from the tokens at (row, column): above the grid each gives 2 x 2 pixels, below it four give one.
TEST(TokenMaps, AreTheGridWhatIsMadeOfEachTokenAndMaximaOfFour) {
  const int64_t width = 4, rows = 2, columns = 5;
  NoGrad guard;
  TokenMaps model(width, {.finest = 2, .levels = 3}, test_device());
  Tensor tokens = testing::formula_images({1, rows * columns, width}).to(DType::f32).to(test_device());
  TensorList maps = model(tokens, {rows, columns});
  ASSERT_EQ(maps.size(), 3u);
  EXPECT_EQ(maps[0].shape(), (Shape{1, 2, 4, 10}));
  EXPECT_EQ(maps[1].shape(), (Shape{1, 4, 2, 5}));
  EXPECT_EQ(maps[2].shape(), (Shape{1, 4, 1, 2}));
  std::vector<double> x = tokens.to_vector<double>(), weight = model.up[0].weight.to_vector<double>(),
                      bias = model.up[0].bias.to_vector<double>();
  auto token = [&](int64_t row, int64_t column, int64_t c) {
    return x[size_t((row * columns + column) * width + c)];
  };
  std::vector<double> fine, grid, coarse;
  for (int64_t o = 0; o < 2; ++o)
    for (int64_t i = 0; i < 2 * rows; ++i)
      for (int64_t j = 0; j < 2 * columns; ++j) {
        double value = bias[size_t(o)];
        for (int64_t c = 0; c < width; ++c)
          value += token(i / 2, j / 2, c) * weight[size_t(((c * 2 + o) * 2 + i % 2) * 2 + j % 2)];
        fine.push_back(value);
      }
  for (int64_t c = 0; c < width; ++c)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) grid.push_back(token(i, j, c));
  for (int64_t c = 0; c < width; ++c)
    for (int64_t j = 0; j + 1 < columns; j += 2)
      coarse.push_back(std::max({token(0, j, c), token(0, j + 1, c), token(1, j, c), token(1, j + 1, c)}));
  EXPECT_TRUE(testing::is_close(maps[0].to_vector<double>(), fine, 1e-6));
  EXPECT_TRUE(testing::is_close(maps[1].to_vector<double>(), grid, 0));
  EXPECT_TRUE(testing::is_close(maps[2].to_vector<double>(), coarse, 0));
}

TEST(TokenMaps, LeadFromAVitToAPyramidAndBack) {
  Vit vit({.image = 16, .patch = 4, .classes = 0, .width = 8, .layers = 1, .heads = 2, .pool = Pool::none},
          test_device());
  TokenMaps maps(8, {}, test_device());
  EXPECT_EQ(maps.channels(), (std::vector<int64_t>{2, 4, 8, 8}));
  FeaturePyramid pyramid(maps.channels(), 6, test_device());
  Tensor tokens = vit(testing::formula_images({2, 3, 16, 16}).to(DType::f32).to(test_device()));
  TensorList levels = pyramid(maps(slice(tokens, 1, vit.prefix_tokens(), tokens.size(1)), {4, 4}));
  Tensor loss = sum(levels[0]);
  for (int64_t i = 0; i < 4; ++i) {
    const int64_t side = 16 >> i;
    EXPECT_EQ(levels[size_t(i)].shape(), (Shape{2, 6, side, side}));
    if (i > 0) loss = loss + sum(levels[size_t(i)]);
  }
  loss.backward();
  for (Module* module :
       {static_cast<Module*>(&vit), static_cast<Module*>(&maps), static_cast<Module*>(&pyramid)})
    for (const auto& [name, parameter] : module->named_parameters())
      EXPECT_TRUE(parameter.grad().defined()) << name;
}

TEST(FeaturePyramid, RefusesWhatDoesNotFit) {
  expect_error([] { FeaturePyramid({}, 4); }, {"FeaturePyramid", "at least one map"});
  expect_error([] { FeaturePyramid({4, 0}, 4); }, {"FeaturePyramid", "0 and 4"});
  FeaturePyramid pyramid({2, 2}, 3);
  expect_error([&] { pyramid({zeros({1, 2, 4, 4})}); }, {"FeaturePyramid", "2 maps", "got 1"});
  expect_error([] { TokenMaps(8, {.finest = 3, .levels = 0}); },
               {"TokenMaps", "power of 2, got 3", "level", "got 0", "width 8", "finest 3"});
  TokenMaps maps(8);
  expect_error(
      [&] {
        maps(zeros({1, 17, 8}), {4, 4});
      },
      {"TokenMaps", "(N, 4 x 4, 8)", "(1, 17, 8)", "class tokens"});
  expect_error([&] { maps(zeros({1, 1, 8}), {1, 1}); }, {"max_pool2d"});
}

}  // namespace
}  // namespace reprise::nn
