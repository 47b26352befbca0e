// Training a small Gpt: it learns, and the same start gives the same bits whatever runs it.
// slow in tsan
#include <cmath>

#include "reprise/core/parallel.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/compare.h"

namespace reprise::nn {
namespace {

using testing::bytes_of;
using testing::odd_gpt;
using testing::random_tokens;
using Bytes = std::vector<unsigned char>;

void append(Bytes& into, const Tensor& x) {
  Bytes bytes = bytes_of(x);
  into.insert(into.end(), bytes.begin(), bytes.end());
}

// Every bit that three updates leave: losses, gradients, weights, optimizer state.
Bytes three_updates(double dropout, uint64_t seed) {
  manual_seed(seed);
  // Large enough for every parallel loop to be cut in pieces.
  Gpt model({.vocab_size = 67, .context = 33, .layers = 2, .heads = 4, .width = 68, .dropout = dropout});
  optim::AdamW optimizer(optim::decay_matrices(model, 1e-2, 0.1));
  Bytes bits;
  for (uint64_t step = 0; step < 3; ++step) {
    Tensor tokens = random_tokens({5, 33}, 67, step), targets = random_tokens({5, 33}, 67, 10 + step);
    Tensor loss = cross_entropy(model(tokens), targets);
    loss.backward();
    append(bits, loss.detach());
    for (const Tensor& parameter : model.parameters()) append(bits, parameter.grad());
    optimizer.step(optim::clip_scale(optim::grad_norm(model.parameters()), 0.5));
    optimizer.zero_grad();
  }
  for (const auto& [name, tensor] : model.state_dict()) append(bits, tensor.detach());
  for (const auto& [name, tensor] : optimizer.state_dict()) append(bits, tensor.detach());
  return bits;
}

class Threads {
 public:
  explicit Threads(int count) { set_num_threads(count); }
  ~Threads() { set_num_threads(previous_); }

 private:
  int previous_ = num_threads();
};

Bytes three_updates_on(int threads, double dropout) {
  Threads scope(threads);
  return three_updates(dropout, 3);
}

TEST(GptTraining, GivesTheSameBitsOnOneTwoAndFourThreads) {
  for (double dropout : {0.0, 0.1}) {
    Bytes want = three_updates_on(1, dropout);
    for (int threads : {2, 4})
      EXPECT_TRUE(three_updates_on(threads, dropout) == want) << threads << " threads, dropout " << dropout;
  }
}

TEST(GptTraining, RepeatsFromItsSeedWithDropout) {
  Bytes first = three_updates(0.1, 3);
  EXPECT_TRUE(three_updates(0.1, 3) == first);
  EXPECT_FALSE(three_updates(0.1, 4) == first);
  EXPECT_FALSE(three_updates(0.2, 3) == first);
}

TEST(GptTraining, LearnsOneBatchByHeart) {
  manual_seed(2);
  Gpt model(odd_gpt());
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2, .weight_decay = 0});
  Tensor tokens = random_tokens({4, 11}, 23, 1), targets = random_tokens({4, 11}, 23, 2);
  auto loss_now = [&] { return cross_entropy(model(tokens), targets); };
  // At the start every token is as likely as any other.
  EXPECT_NEAR(loss_now().item(), std::log(23.0), 0.1);
  for (int step = 0; step < 150; ++step) {
    loss_now().backward();
    optimizer.step();
    optimizer.zero_grad();
  }
  EXPECT_LT(loss_now().item(), 0.05);
}

TEST(GptTraining, AccumulatesGradientsOverMicroBatches) {
  manual_seed(2);
  Gpt model(odd_gpt());
  testing::randomize(model);
  Tensor tokens = random_tokens({4, 11}, 23, 1), targets = random_tokens({4, 11}, 23, 2);
  cross_entropy(model(tokens), targets).backward();
  TensorList whole;
  for (const Tensor& parameter : model.parameters()) whole.push_back(parameter.grad().clone());
  model.zero_grad();
  for (int64_t b = 0; b < 4; b += 2)
    (cross_entropy(model(tokens.slice(0, b, b + 2)), targets.slice(0, b, b + 2)) / 2).backward();
  for (size_t i = 0; i < whole.size(); ++i)  // the same sums in another order: f32 rounding
    EXPECT_TRUE(testing::is_close(model.parameters()[i].grad(), whole[i], 2e-6)) << "parameter " << i;
}

}  // namespace
}  // namespace reprise::nn
