// Which layers are blocks, and which weights are theirs alone.
#include "reprise/distributed/data_parallel/blocks.h"

#include <gtest/gtest.h>

#include "reprise/nn/layers.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;

// The names of blocks, each with those of its weights.
std::string described(nn::Module& model, const std::vector<Block>& blocks) {
  std::string text;
  const nn::NamedTensors named = model.named_parameters();
  for (const Block& block : blocks) {
    text += block.name + ':';
    for (size_t i : block.parameters) text += ' ' + named[i].first;
    text += '\n';
  }
  return text;
}

// A layer that has a weight of its own, and one of somebody else's.
struct Tied : nn::Layer {
  Tensor own, other;
  explicit Tied(const Tensor& shared = {}) {
    own = register_parameter("own", Tensor::zeros({4, 5}));
    other = register_parameter("other", shared.defined() ? shared : Tensor::zeros({3}));
  }
  Tensor forward(const Tensor& x) override { return x; }
};

TEST(Blocks, AreTheOutermostNumberedLayers) {
  nn::Gpt model({.vocab_size = 8, .context = 4, .layers = 2, .heads = 1, .width = 8});
  const std::vector<Block> blocks = numbered_blocks(model, model.parameters(), 1);
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[1].name, "h.1");
  EXPECT_EQ(blocks[1].layer, &model.at<nn::TransformerBlock>("h.1"));
  EXPECT_EQ(blocks[1].parameters.size(), 12u);

  nn::Sequential outer;
  outer.add<nn::Linear>(2, 3);
  outer.add<Tied>();
  EXPECT_EQ(described(outer, numbered_blocks(outer, outer.parameters(), 1)),
            "0: 0.weight 0.bias\n1: 1.own 1.other\n");
  EXPECT_EQ(described(outer, numbered_blocks(outer, outer.parameters(), 10)), "1: 1.own 1.other\n");
}

TEST(Blocks, HaveNoWeightThatIsSomebodyElsesToo) {
  struct Model : nn::Module {
    Tied first, second{first.other}, third, around{third.own};
    Model() {
      register_module("0", first);
      register_module("1", second);
      register_module("2", third);
      register_module("around", around);
    }
  } model;
  EXPECT_EQ(described(model, numbered_blocks(model, model.parameters(), 1)),
            "0: 0.own\n1: 1.own\n2: 2.other\n");
}

TEST(Blocks, AreLayersOfTheModel) {
  nn::Gpt model({.vocab_size = 8, .context = 4, .layers = 2, .heads = 1, .width = 8});
  auto& block = model.at<nn::TransformerBlock>("h.0");
  nn::Linear stranger(2, 2);
  const TensorList leaves = model.parameters();
  EXPECT_EQ(blocks_of(model, leaves, {&block.mlp.fc1})[0].name, "h.0.mlp.fc1");
  expect_error([&] { blocks_of(model, leaves, {&block, &stranger}); }, {"blocks", "of 2 layers 1"});
  expect_error(
      [&] {
        blocks_of(model, leaves, {&block, &block.mlp.fc1});
      },
      {"blocks", "h.0.mlp.fc1 is within h.0"});
  block.freeze();
  EXPECT_TRUE(blocks_of(model, {}, {&block}).empty()) << "it trains nothing";
}

}  // namespace
}  // namespace reprise::distributed
