// How long shadows of weights live changes no bit of training, with evaluations between and passes without a graph first.
// slow on the device cuda
#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/test_device.h"

namespace reprise {
namespace {

using testing::same_bits;
using testing::test_device;

enum class Evaluation { none, between, first };

Tensor loss_of(nn::Gpt& model, DType dtype, amp::Shadows shadows) {
  const Tensor tokens = arange(2 * 8, DType::i64, test_device()).reshape({2, 8});
  amp::Autocast scope(test_device(), dtype, {.weights = shadows});
  return cross_entropy(model(tokens), tokens);
}

// Gradients of each of three updates of two micro-batches, and the weights after each.
TensorList trained(DType dtype, amp::Shadows shadows, Evaluation evaluation) {
  manual_seed(5);
  nn::Gpt model({.vocab_size = 17, .context = 8, .layers = 2, .heads = 2, .width = 16}, test_device());
  optim::AdamW optimizer(model.parameters(), {.lr = 1e-2});
  auto evaluate = [&](bool wanted) {
    NoGrad no_graph;
    if (wanted) loss_of(model, dtype, shadows);
  };
  TensorList seen;
  for (int update = 0; update < 3; ++update) {
    evaluate(evaluation == Evaluation::first);
    loss_of(model, dtype, shadows).backward();
    evaluate(evaluation == Evaluation::between);
    loss_of(model, dtype, shadows).backward();
    for (const Tensor& p : model.parameters()) seen.push_back(p.grad().clone());
    optimizer.step();
    for (const Tensor& p : model.parameters()) seen.push_back(p.detach().clone());
    optimizer.zero_grad();
  }
  return seen;
}

TEST(Autocast, CacheChangesNoBit) {
  for (DType dtype : {DType::bf16, DType::f16}) {
    const TensorList want = trained(dtype, amp::Shadows::none, Evaluation::none);
    for (amp::Shadows shadows : {amp::Shadows::step, amp::Shadows::forward, amp::Shadows::none})
      for (Evaluation evaluation : {Evaluation::none, Evaluation::between, Evaluation::first}) {
        const TensorList got = trained(dtype, shadows, evaluation);
        ASSERT_TRUE(same_bits(got, want))
            << dtype << ", shadows " << int(shadows) << ", evaluation " << int(evaluation);
      }
  }
}

}  // namespace
}  // namespace reprise
