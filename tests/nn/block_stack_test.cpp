// BlockStack is Sequential to the bit, plays its regions twice in training and makes none in
// evaluation.
#include "reprise/nn/block_stack.h"

#include "reprise/nn/transformers/transformer_block.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/support/on_gpu.h"

namespace reprise::nn {
namespace {

using testing::expect_error;
using testing::leaf;
using testing::NoLeaks;
using testing::same_bits;

// A linear layer with what a residual branch may have; it counts its calls.
class Branch : public Layer {
 public:
  Branch() {
    register_module("linear", linear_);
    register_module("dropout", dropout_);
    register_module("drop_path", drop_path_);
  }
  Tensor forward(const Tensor& x) override {
    ++calls;
    return x + drop_path_(dropout_(sin(linear_(x))));
  }
  int calls = 0;

 private:
  Linear linear_{5, 5, {}, testing::test_device()};
  Dropout dropout_{0.2};
  DropPath drop_path_{0.4};
};

template <class Container>
Container& with_branches(Container& net, int count) {
  manual_seed(4);
  for (int i = 0; i < count; ++i) net.template add<Branch>();
  return net;
}

TensorList step(Sequential& net, const std::function<Tensor(const Tensor&)>& forward) {
  manual_seed(6);
  Tensor x = leaf({8, 5}, 2), y = forward(x);
  square(y).sum().backward();
  TensorList bits = {y.detach(), x.grad()};
  for (const Tensor& parameter : net.parameters()) bits.push_back(parameter.grad());
  net.zero_grad();
  return bits;
}
TensorList step(Sequential& net) {
  return step(net, [&](const Tensor& x) { return net(x); });
}

std::vector<int> calls_of(Sequential& net) {
  std::vector<int> calls;
  for (int64_t i = 0; i < net.size(); ++i) calls.push_back(static_cast<Branch&>(net[i]).calls);
  return calls;
}

TEST(BlockStack, IsSequentialToTheBitWithDropoutAndDropPath) {
  Sequential plain;
  TensorList want = step(with_branches(plain, 4));
  const std::pair<const char*, std::vector<int>> cases[] = {
      {"none", {1, 1, 1, 1}},       {"full", {2, 2, 2, 2}},       {"every:2", {1, 2, 1, 2}},
      {"every:3", {1, 1, 2, 1}},    {"keep:2", {2, 1, 2, 1}},     {"keep:3", {2, 2, 1, 2}},
      {"layers:0,3", {2, 1, 1, 2}}, {"segments:2", {2, 2, 1, 1}}, {"sqrt", {2, 2, 1, 1}}};
  for (const auto& [text, calls] : cases)
    for (CheckpointMode mode : testing::kModes) {
      SCOPED_TRACE(text);
      NoLeaks guard;
      BlockStack net;
      with_branches(net, 4).set_recompute(recompute::plan_of(parse_strategy(text), 4), {.mode = mode});
      EXPECT_TRUE(same_bits(step(net), want));
      EXPECT_EQ(calls_of(net), calls);
    }
}

TEST(BlockStack, HoldsTransformerBlocksWithDropoutAndDropPath) {
  auto bits = [](const char* text) {
    BlockStack net;
    manual_seed(4);
    for (int i = 0; i < 4; ++i)
      net.add<TransformerBlock>(6, 2, BlockOptions{.dropout = 0.2, .drop_path = 0.3}, testing::test_device());
    net.set_recompute(parse_strategy(text));
    manual_seed(6);
    Tensor x = leaf({4, 5, 6}, 2), y = net(x);
    square(y).sum().backward();
    TensorList all = {y.detach(), x.grad()};
    for (const Tensor& parameter : net.parameters()) all.push_back(parameter.grad());
    return all;
  };
  TensorList want = bits("none");
  for (const char* text : {"full", "every:3", "selective", "segments:2", "offload"})
    EXPECT_TRUE(same_bits(bits(text), want));
}

TEST(BlockStack, HasTheNamesOfSequential) {
  Sequential plain;
  BlockStack net;
  NamedTensors want = with_branches(plain, 2).state_dict(), got = with_branches(net, 2).state_dict();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].first, want[i].first);
}

TEST(BlockStack, MakesNoRegionsInEvaluation) {
  BlockStack net;
  with_branches(net, 3).set_recompute(parse_strategy("full"));
  net.eval();
  step(net);
  EXPECT_EQ(calls_of(net), std::vector<int>(3, 1));
}

TEST(BlockStack, RefusesWhatDoesNotFitItsBlocks) {
  BlockStack net;
  with_branches(net, 2);
  expect_error([&] { net.set_recompute(parse_strategy("segments:3")); }, {"3 segments of only 2 layers"});
  expect_error(
      [&] {
        net.set_recompute(recompute::Plan{{0, 1, true}});
      },
      {"ends at layer 1 of a chain of 2"});
  using Kind = RecomputeStrategy::Kind;
  expect_error([&] { net.set_recompute({.kind = Kind::automatic}); }, {"'auto' needs a memory budget"});
  expect_error([&] { net.set_recompute({.kind = Kind::full, .memory_percent = 50}); },
               {"'full", "memory_percent 50"});
  expect_error([&] { net.plan(leaf({2, 5}), parse_strategy("full")); }, {"'full' is not planned"});
  expect_error([&] { net.set_recompute({.kind = Kind::full, .memory_budget = 4096}); },
               {"'full", "memory_budget 4096"});
  expect_error([&] { net.set_recompute({.kind = Kind::full, .count = 3}); }, {"full", "count 3"});
  expect_error([&] { net.set_recompute({.layers = {0, 1}}); }, {"none", "layers, of which it has 2"});
  expect_error([&] { net.set_recompute({.kind = Kind::every, .count = 1, .policy = "save_matmuls"}); },
               {"every", "policy 'save_matmuls'"});
  EXPECT_EQ(to_string(net.recompute_plan()), "0-1");
  net.add<Branch>();
  EXPECT_EQ(step(net).size(), 2u + 3 * 2);
  net.set_recompute(parse_strategy("full"));
  net.add<Branch>();
  expect_error([&] { net(leaf({8, 5})); }, {"ends at layer 3 of a chain of 4"});
}

TEST(BlockStack, GivesItsBlocksAsFunctions) {
  BlockStack net;
  TensorList want = step(with_branches(net, 4));
  EXPECT_TRUE(same_bits(
      step(net, [&](const Tensor& x) { return checkpoint_sequential(net.functions(), 2, x); }), want));
  EXPECT_EQ(calls_of(net), (std::vector<int>{3, 3, 2, 2}));
}

// Unlike blocks, of which the planner measures each; what is around them is the model's.
struct Net : Module {
  Linear in{5, 12, {}, testing::test_device()};
  BlockStack blocks{
      {.before = [this](const Tensor& x) { return in(x); },
       .after = [](const Tensor& x, const Tensor& input) { return sum(square(x)) + sum(input); },
       .model = this}};
  Net() {
    register_module("in", in);
    register_module("blocks", blocks);
    blocks.add<Linear>(12, 4096, LinearOptions{}, testing::test_device());
    blocks.add<Activate>(Activation::gelu);
    blocks.add<Linear>(4096, 12, LinearOptions{}, testing::test_device());
  }
};

TEST(BlockStack, MeasuresEachOfUnlikeBlocksAndPlansForABudget) {
  auto grads = [](bool planned) {
    manual_seed(4);
    Net net;
    Tensor x = leaf({32, 5}, 2).detach();
    if (planned) {
      recompute::Chain chain = net.blocks.profile(x);
      EXPECT_EQ(chain.size(), 3);
      int64_t wide = 32 * 4096 * 4, narrow = 32 * 12 * 4;
      EXPECT_EQ(chain.stages[1].boundary_bytes, wide);
      EXPECT_EQ(chain.stages[2].boundary_bytes, narrow);
      net.blocks.plan(x, size_t(recompute::minimum_bytes(chain)));
      if (!testing::on_gpu()) {  // cuBLASLt takes memory to work in, which the least budget holds
        EXPECT_NE(to_string(net.blocks.recompute_plan()), "0-2");
      }
    }
    sum(square(net.blocks(x))).backward();
    TensorList all;
    for (const Tensor& parameter : net.parameters()) all.push_back(parameter.grad());
    return all;
  };
  EXPECT_TRUE(same_bits(grads(true), grads(false)));
}

}  // namespace
}  // namespace reprise::nn
