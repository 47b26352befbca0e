// CheckpointedSequential is Sequential to the bit, plays its regions twice in training and makes none in
// evaluation.
#include "reprise/nn/block_stack.h"

#include "reprise/nn/transformer.h"
#include "reprise/tests/autograd/recompute/support.h"

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

void expect_same(const TensorList& got, const TensorList& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << i;
}

std::vector<int> calls_of(Sequential& net) {
  std::vector<int> calls;
  for (int64_t i = 0; i < net.size(); ++i) calls.push_back(static_cast<Branch&>(net[i]).calls);
  return calls;
}

TEST(CheckpointedSequential, IsSequentialToTheBitWithDropoutAndDropPath) {
  Sequential plain;
  TensorList want = step(with_branches(plain, 4));
  const std::pair<const char*, std::vector<int>> cases[] = {
      {"none", {1, 1, 1, 1}},       {"full", {2, 2, 2, 2}},       {"every:2", {1, 2, 1, 2}},
      {"layers:0,3", {2, 1, 1, 2}}, {"segments:2", {2, 2, 1, 1}}, {"sqrt", {2, 2, 1, 1}}};
  for (const auto& [text, calls] : cases)
    for (CheckpointMode mode : testing::kModes) {
      SCOPED_TRACE(text);
      NoLeaks guard;
      CheckpointedSequential net(parse_strategy(text), {.mode = mode});
      expect_same(step(with_branches(net, 4)), want);
      EXPECT_EQ(calls_of(net), calls);
    }
}

TEST(CheckpointedSequential, HoldsTransformerBlocksWithDropoutAndDropPath) {
  auto bits = [](const char* text) {
    CheckpointedSequential net(parse_strategy(text));
    manual_seed(4);
    for (int i = 0; i < 4; ++i)
      net.add<TransformerBlock>(BlockOptions{.width = 6, .heads = 2, .dropout = 0.2, .drop_path = 0.3},
                                testing::test_device());
    manual_seed(6);
    Tensor x = leaf({4, 5, 6}, 2), y = net(x);
    square(y).sum().backward();
    TensorList all = {y.detach(), x.grad()};
    for (const Tensor& parameter : net.parameters()) all.push_back(parameter.grad());
    return all;
  };
  TensorList want = bits("none");
  for (const char* text : {"full", "every:3", "selective", "segments:2", "offload"})
    expect_same(bits(text), want);
}

TEST(CheckpointedSequential, HasTheNamesOfSequential) {
  Sequential plain;
  CheckpointedSequential net(parse_strategy("full"));
  NamedTensors want = with_branches(plain, 2).state_dict(), got = with_branches(net, 2).state_dict();
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i].first, want[i].first);
}

TEST(CheckpointedSequential, MakesNoRegionsInEvaluation) {
  CheckpointedSequential net(parse_strategy("full"));
  with_branches(net, 3).eval();
  step(net);
  EXPECT_EQ(calls_of(net), std::vector<int>(3, 1));
}

TEST(CheckpointedSequential, RefusesFewerLayersThanSegments) {
  CheckpointedSequential net(parse_strategy("segments:3"));
  with_branches(net, 2);
  expect_error([&] { net(leaf({8, 5})); }, {"3 segments of only 2 layers"});
}

TEST(CheckpointSequential, TakesASequential) {
  Sequential net;
  TensorList want = step(with_branches(net, 4));
  expect_same(step(net, [&](const Tensor& x) { return checkpoint_sequential(net, 2, x); }), want);
  EXPECT_EQ(calls_of(net), (std::vector<int>{3, 3, 2, 2}));
}

}  // namespace
}  // namespace reprise::nn
