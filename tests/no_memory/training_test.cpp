// Memory that is not there: wherever an allocation of a training step fails, the step ends in an exception,
// leaves nothing behind, and can be tried again. This program has an operator new of its own, which fails
// when it is told to.
// labels: slow
// not in tsan: Recompute/NoMemory.*/full:Recompute/NoMemory.*/selective
// slow in tsan
#include <gtest/gtest.h>

#include <new>

#include "reprise/autograd/node.h"
#include "reprise/core/parallel.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/no_memory/failing_new.h"

namespace reprise::nn {
namespace {

using Weights = std::vector<std::vector<double>>;

struct Training {
  explicit Training(const char* strategy)
      : model(
            (manual_seed(3), GptOptions{.vocab_size = 7, .context = 5, .layers = 1, .heads = 2, .width = 8})),
        optimizer(model.parameters(), {.lr = 0.01}) {
    if (*strategy) model.h.set_recompute(recompute::parse_strategy(strategy));
  }
  Gpt model;
  optim::AdamW optimizer;
  Tensor tokens = testing::random_tokens({2, 5}, 7, 1), targets = testing::random_tokens({2, 5}, 7, 2);

  void step() {
    model.zero_grad();
    cross_entropy(model(tokens), targets).backward();
    optimizer.step();
  }
  Weights weights() const {
    Weights all;
    for (const Tensor& parameter : model.parameters()) all.push_back(parameter.to_vector<double>());
    return all;
  }
};

Weights after_one_step(const char* strategy) {
  Training training(strategy);
  training.step();
  return training.weights();
}

// A step whose k-th allocation fails: whether it ended without an exception.
bool ends_well(Training& training, int64_t k, testing::Failing failing) {
  testing::fail_allocation(k, failing);
  bool well = true;
  try {
    training.step();
  } catch (const std::bad_alloc&) { well = false; } catch (const Error&) {
    well = false;
  }
  testing::fail_no_allocation();
  return well;
}

// One step whose k-th allocation fails, then a step with all of its memory. False if no allocation failed.
bool survives(int64_t k, testing::Failing failing, const char* strategy, const Weights& expected) {
  const int64_t blocks = allocator(Device::cpu()).stats().live_blocks, nodes = autograd::live_nodes();
  {
    Training training(strategy);
    if (!ends_well(training, k, failing)) training.step();
    EXPECT_EQ(training.weights(), expected) << "allocation " << k << ", " << strategy;
  }
  EXPECT_EQ(allocator(Device::cpu()).stats().live_blocks, blocks) << "allocation " << k;
  EXPECT_EQ(autograd::live_nodes(), nodes) << "allocation " << k;
  return testing::failed_allocations() > 0;
}

class NoMemory : public ::testing::TestWithParam<const char*> {
 protected:
  NoMemory() { set_num_threads(2); }
  ~NoMemory() override { set_num_threads(before_); }
  int before_ = num_threads();
};

TEST_P(NoMemory, AtAnyAllocationOfAStepEndsInAnExceptionAndARetryIsExact) {
  const Weights expected = after_one_step(GetParam());
  int64_t k = 0;
  while (survives(k, testing::Failing::one, GetParam(), expected) && !HasFailure()) ++k;
  EXPECT_GT(k, 300);
}

TEST_P(NoMemory, FromAnyAllocationOnEndsInAnExceptionAndARetryIsExact) {
  const Weights expected = after_one_step(GetParam());
  for (int64_t k = 0; survives(k, testing::Failing::all_from_it, GetParam(), expected) && !HasFailure();)
    k += 7;
}

INSTANTIATE_TEST_SUITE_P(Recompute, NoMemory, ::testing::Values("", "full", "selective"),
                         [](const auto& test) { return *test.param ? test.param : "none"; });

}  // namespace
}  // namespace reprise::nn
