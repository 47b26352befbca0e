// Differences of tensors are found to the bit, and said with names, places and values.
#include "reprise/train/same_bits.h"

#include <gtest/gtest.h>

#include <limits>

#include "reprise/autograd/ops.h"
#include "reprise/nn/models/gpt.h"

namespace reprise::train {
namespace {

// The gradients of a small GPT's step.
nn::NamedTensors gradients(uint64_t seed) {
  manual_seed(seed);
  nn::Gpt model({.vocab_size = 11, .context = 8, .layers = 2, .heads = 2, .width = 8});
  Tensor tokens = cast(rand({2, 8}) * 11.0, DType::i64);
  cross_entropy(model(tokens), tokens).backward();
  nn::NamedTensors all = model.named_parameters();
  for (auto& [name, tensor] : all) tensor = tensor.grad();
  return all;
}

TEST(Differences, OfTheSameBitsAreNone) {
  EXPECT_TRUE(differences(gradients(1), gradients(1)).empty());
  float nan = std::numeric_limits<float>::quiet_NaN();
  nn::NamedTensors odd = {{"nan", Tensor::from<float>({nan, 1}, {2})}, {"none", Tensor()}};
  nn::NamedTensors again = {{"nan", Tensor::from<float>({nan, 1}, {2})}, {"none", Tensor()}};
  EXPECT_TRUE(differences(odd, again).empty());
}

TEST(Differences, AGradientChangedInItsLastBitIsNamedWithPlaceAndValues) {
  nn::NamedTensors want = gradients(1), got = gradients(1);
  Tensor& changed = got[5].second;
  auto* bits = reinterpret_cast<uint32_t*>(changed.data<float>()) + 3;
  *bits ^= 1;
  std::vector<Difference> found = differences(got, want);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].name, want[5].first);
  std::string start = detail::join("1 of ", changed.numel(), " elements, the first at 3: ");
  EXPECT_TRUE(found[0].what.starts_with(start)) << found[0].what;
  size_t middle = found[0].what.find(" instead of ");
  EXPECT_NE(found[0].what.substr(start.size(), middle - start.size()), found[0].what.substr(middle + 12));
}

TEST(Differences, CountsEveryElementAndNamesTheFirst) {
  nn::NamedTensors want = {{"w", Tensor::from<float>({1, 2, 3, 4}, {2, 2})}};
  nn::NamedTensors got = {{"w", Tensor::from<float>({1, 2.5, 3, 5}, {2, 2})}};
  std::vector<Difference> found = differences(got, want);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what, "2 of 4 elements, the first at 1: 2.5 instead of 2");
}

TEST(Differences, MinusZeroIsNotZero) {
  EXPECT_EQ(
      differences({{"w", Tensor::from<float>({-0.0f}, {1})}}, {{"w", Tensor::from<float>({0}, {1})}}).size(),
      1u);
}

TEST(Differences, OfShapesNamesAndMissingTensorsAreFound) {
  Tensor two = Tensor::from<float>({1, 2}, {2}), row = Tensor::from<float>({1, 2}, {1, 2});
  auto one = [](const nn::NamedTensors& got, const nn::NamedTensors& want) {
    std::vector<Difference> found = differences(got, want);
    return found.size() == 1 ? found[0].name + ": " + found[0].what
                             : detail::join(found.size(), " differences");
  };
  EXPECT_EQ(one({{"w", row}}, {{"w", two}}), "w: shape (1, 2) instead of (2,)");
  EXPECT_EQ(one({{"w", cast(two, DType::f64)}}, {{"w", two}}), "w: dtype f64 instead of f32");
  EXPECT_EQ(one({{"w", Tensor()}}, {{"w", two}}), "w: there is none");
  EXPECT_EQ(one({{"w", two}}, {{"w", Tensor()}}), "w: there is one, and should be none");
  EXPECT_EQ(one({{"v", two}}, {{"w", two}}), "v: it stands at place 0 of one list only");
  EXPECT_EQ(one({}, {{"w", two}}), "w: it stands at place 0 of one list only");
}

}  // namespace
}  // namespace reprise::train
