// Models that go before backward: a graph needs no model, with recompute as without.
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/block_stack.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::same_bits;
using testing::test_device;

Tensor tokens_of(const Shape& shape, int64_t from) {
  Tensor tokens = (arange(numel_of(shape)) + double(from)).reshape(shape);
  return tokens.to(test_device());
}

// The loss and all gradients of a model that is gone, or not, when backward runs.
TensorList train_gpt(const std::string& strategy, bool goes) {
  manual_seed(5);
  auto model = std::make_unique<nn::Gpt>(nn::GptOptions{.vocab_size = 30,
                                                        .context = 8,
                                                        .layers = 3,
                                                        .heads = 2,
                                                        .width = 16,
                                                        .dropout = 0.1,
                                                        .recompute = parse_strategy(strategy)},
                                         test_device());
  TensorList parameters = model->parameters();
  Tensor loss = cross_entropy((*model)(tokens_of({2, 8}, 0)), tokens_of({2, 8}, 3));
  if (goes) model.reset();
  loss.backward();
  TensorList results{loss.detach()};
  for (const Tensor& p : parameters) results.push_back(p.grad());
  return results;
}

TEST(RecomputeLifetime, AGptMayGoBeforeBackward) {
  TensorList want = train_gpt("none", false);
  for (const char* strategy :
       {"none", "full", "every:2", "segments:2", "selective", "selective:save_attention", "offload"})
    for (bool goes : {false, true}) {
      SCOPED_TRACE(strategy);
      TensorList got = train_gpt(strategy, goes);
      EXPECT_TRUE(same_bits(got, want));
    }
}

TEST(RecomputeLifetime, AGptReleasesItsMemoryWithTheLossIfItGoesFirst) {
  int64_t before = int64_t(allocator(test_device()).stats().live_blocks);
  {
    Tensor loss;
    {
      nn::Gpt model({.vocab_size = 30,
                     .context = 8,
                     .layers = 2,
                     .heads = 2,
                     .width = 16,
                     .recompute = parse_strategy("full")},
                    test_device());
      loss = cross_entropy(model(tokens_of({2, 8}, 0)), tokens_of({2, 8}, 3));
    }
    loss.backward();
  }
  EXPECT_EQ(int64_t(allocator(test_device()).stats().live_blocks), before);
}

void fill(nn::Sequential& net) {
  net.add<nn::Linear>(6, 12, nn::LinearOptions{}, test_device());
  net.add<nn::Activate>(Activation::gelu);
  net.add<nn::BatchNorm1d>(12, nn::BatchNormLayerOptions{}, test_device());
  auto& inner = net.add<nn::Sequential>();
  inner.add<nn::Linear>(12, 6, nn::LinearOptions{}, test_device());
  inner.add<nn::Dropout>(0.3);
}

TensorList train_chain(const char* strategy, int64_t segments, bool goes) {
  manual_seed(5);
  auto net = std::make_unique<nn::BlockStack>();
  fill(*net);
  net->set_recompute(parse_strategy(strategy));
  TensorList parameters = net->parameters();
  Tensor x = randn({4, 6}).to(test_device()).set_requires_grad();
  Tensor loss =
      sum(square(segments > 0 ? checkpoint_sequential(net->functions(), segments, x) : net->forward(x)));
  if (goes) net.reset();
  loss.backward();
  TensorList results{loss.detach(), x.grad()};
  for (const Tensor& p : parameters) results.push_back(p.grad());
  return results;
}

TEST(RecomputeLifetime, AChainMayGoBeforeBackward) {
  TensorList want = train_chain("none", 0, false);
  for (int way = 0; way < 2; ++way) {
    TensorList got = way ? train_chain("none", 2, true) : train_chain("full", 0, true);
    EXPECT_TRUE(same_bits(got, want));
  }
}

}  // namespace
}  // namespace reprise
