// A rank whose others are imagined holds what a rank of a real job holds.
// labels: concurrency
// slow in asan
#include "reprise/distributed/imagined/imagined_group.h"

#include <gtest/gtest.h>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/core/no_compute.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/sharded_sgd.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/nn/small_models.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;

const nn::GptOptions gpt{.vocab_size = 300, .context = 32, .layers = 4, .heads = 4, .width = 128};

enum class Precision { f32, bf16, bf16_pure };

using MakeOptimizer = std::unique_ptr<optim::Optimizer> (*)(DataParallel& parallel, int stage);

std::unique_ptr<optim::Optimizer> adamw(DataParallel& parallel, int stage) {
  return std::make_unique<ShardedAdamW>(parallel, optim::decay_matrices(parallel.model(), 1e-3, 0.1),
                                        ShardedAdamWOptions{.stage = stage});
}
std::unique_ptr<optim::Optimizer> sgd(DataParallel& parallel, int stage) {
  return std::make_unique<ShardedSgd>(parallel, optim::decay_matrices(parallel.model(), 1e-3, 0.1),
                                      ShardedSgdOptions{.stage = stage, .sgd = {.momentum = 0.9}});
}

// The peak of the second of two steps of a GPT, above what was held before, in bytes.
std::string peak_of_step(ProcessGroup& group, int stage, int64_t micro_batches, Precision precision,
                         const Shape& tokens = {4, 32}, MakeOptimizer make_optimizer = adamw) {
  Allocator& memory = allocator(Device::cpu());
  memory.empty_cache();
  const size_t before = memory.stats().held;
  nn::Gpt model(gpt);
  const bool is_pure = precision == Precision::bf16_pure;
  if (is_pure) nn::to_precision(model, DType::bf16);
  for (const Tensor& parameter : model.parameters())
    if (is_pure) parameter.set_grad_dtype(DType::f32);
  auto loss_of = [&](const Tensor& ids) {
    if (precision == Precision::f32) return cross_entropy(model(ids), ids);
    const amp::Autocast scope(Device::cpu(), DType::bf16,
                              {.norms = is_pure ? amp::Norms::as_given : amp::Norms::f32});
    return cross_entropy(model(ids), ids);
  };
  DataParallel parallel(model, group, {.bytes = 50000, .first_bytes = 10000});
  const std::unique_ptr<optim::Optimizer> optimizer = make_optimizer(parallel, stage);
  for (int step = 0; step < 2; ++step) {
    memory.reset_peaks();
    for (const int64_t g : parallel.share(micro_batches)) {
      const Tensor ids = testing::random_tokens(tokens, 300, uint64_t(g));
      parallel.backward(loss_of(ids), g);
    }
    optimizer->step(optim::clip_scale(dynamic_cast<SharedOptimizer&>(*optimizer).grad_norm(), 1.0));
    optimizer->zero_grad();
  }
  return std::to_string(memory.stats().peak_held - before);
}

TEST(ImaginedGroup, RankHoldsWhatARealOneHolds) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  for (const Precision precision : {Precision::f32, Precision::bf16, Precision::bf16_pure})
    for (int stage : {0, 1, 2, 3})
      for (const auto& [ranks, each] : {std::pair(2, int64_t(2)), {3, 1}}) {
        SCOPED_TRACE(detail::join(ranks, " ranks, stage ", stage, ", ", each,
                                  " micro-batches each, precision ", int(precision)));
        const double real = std::stod(testing::run_ranks(Ranks::gloo, ranks, [&](ProcessGroup& group) {
          return peak_of_step(group, stage, ranks * each, precision);
        })[0]);
        const NoCompute no_compute;
        const double imagined =
            std::stod(peak_of_step(*imagined_group(0, ranks), stage, ranks * each, precision));
        // What is not scattered has the room in which it arrives when its turn comes, which may be at the peak or not.
        constexpr double largest = 4 * 4 * 128 * 128;  // a bucket: an MLP's weight
        const double room = stage < 2 ? largest * (ranks - 1) / ranks : 0;
        EXPECT_LE(imagined, 1.02 * real);
        EXPECT_LE(real, 1.02 * imagined + room);
      }
}

// With a velocity, and with masters of weights of 16 bits.
TEST(ImaginedGroup, RankThatTrainsBySgdHoldsWhatARealOneHolds) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  for (const Precision precision : {Precision::f32, Precision::bf16_pure})
    for (int stage : {0, 1, 3}) {
      SCOPED_TRACE(detail::join("stage ", stage, ", precision ", int(precision)));
      const auto peak = [&](ProcessGroup& group) {
        return peak_of_step(group, stage, 4, precision, {4, 32}, sgd);
      };
      const double real = std::stod(testing::run_ranks(Ranks::gloo, 2, peak)[0]);
      const NoCompute no_compute;
      const double imagined = std::stod(peak(*imagined_group(0, 2)));
      EXPECT_LE(imagined, 1.02 * real);
      EXPECT_LE(real, 1.02 * imagined + (stage < 2 ? 2 * 4 * 128 * 128 : 0));  // the room of a bucket's sums
    }
}

// Of scattered gradients a rank has its part, and two buckets: what they send, and where the sums of others arrive.
TEST(ImaginedGroup, ScatteredGradientsAreGoneButForTwoBuckets) {
  const NoCompute no_compute;
  const auto peak = [](int stage) {
    const Shape few = {1, 2};  // so that gradients are most of a step
    return std::stod(peak_of_step(*imagined_group(0, 4), stage, 4, Precision::f32, few));
  };
  constexpr double gradients = 4 * (300 + 32 + 12 * 4 * 128) * 128;  // nearly
  constexpr double bucket = 4 * 4 * 128 * 128 + 50000;  // at most: of an MLP, and what was there before
  EXPECT_LE(peak(2), peak(1) - 0.75 * gradients + 2 * 1.75 * bucket);
}

// Of a rank with one micro-batch: each gradient is put into its bucket as it becomes ready, and is gone.
TEST(ImaginedGroup, GradientsAreThereOnceWhileTheyArePacked) {
  const NoCompute no_compute;
  const auto group = imagined_group(0, 2);
  constexpr int layers = 8, width = 256;
  nn::Sequential model;
  for (int i = 0; i < layers; ++i) model.add<nn::Linear>(width, width);
  DataParallel parallel(model, *group, {.bytes = 1 << 30, .first_bytes = 1 << 30});
  ASSERT_EQ(parallel.buckets().size(), 1u);
  Allocator& memory = allocator(Device::cpu());
  memory.reset_peaks();
  for (const int64_t g : parallel.share(2)) parallel.backward(model(Tensor::zeros({1, width})).mean(), g);
  constexpr double layer = 4.0 * width * (width + 1);
  const double peak = double(memory.stats().peak_by_category[size_t(MemoryCategory::gradients)]);
  EXPECT_GE(peak, layers * layer);
  EXPECT_LE(peak, (layers + 1) * layer + 4096);
}

// However large a tensor is, 4 MiB of each other rank's arrives at once.
TEST(ImaginedGroup, SumsArriveInPieces) {
  const NoCompute no_compute;
  const auto group = imagined_group(1, 4);
  Allocator& memory = allocator(Device::cpu());
  const Tensor all = Tensor::zeros({1 << 24}), part = Tensor::zeros({1 << 22});
  memory.reset_peaks();
  const size_t before = memory.stats().held;
  group->all_reduce(all).wait();
  group->reduce_scatter(part, all).wait();
  EXPECT_GE(memory.stats().peak_held - before, size_t(12) << 20);
  EXPECT_LE(memory.stats().peak_held - before, size_t(13) << 20);
}

TEST(ImaginedGroup, IsForCodeThatComputesNothing) {
  const auto group = imagined_group(1, 4);
  EXPECT_EQ(group->rank(), 1);
  EXPECT_EQ(group->size(), 4);
  const Tensor x = Tensor::zeros({3});
  {
    const NoCompute no_compute;
    group->all_reduce(x).wait();
    group->barrier();
    EXPECT_EQ(group->gather_text("a"), std::vector<std::string>(4, "a"));
  }
  expect_error([&] { group->all_reduce(x).wait(); }, "the other ranks are imagined (imagined_group)");
}

// Its calls would reach ranks that compute.
TEST(ImaginedGroup, ARealGroupIsRefusedWithinANoCompute) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    const Tensor x = Tensor::from<float>({1, 2}, {2});
    {
      const NoCompute no_compute;
      expect_error([&] { group.all_reduce(x); }, "all_reduce: group world has other ranks");
      expect_error([&] { group.gather_text("a"); }, "gather_text: group world has other ranks");
    }
    group.all_reduce(x).wait();
    return x.to_vector<float>() == std::vector<float>{2, 4} ? "" : "a wrong sum";
  });
}

TEST(ImaginedGroup, RefusesRanksThatAreNone) {
  expect_error([] { imagined_group(4, 4); }, "imagined_group: there is no rank 4 among 4");
  expect_error([] { imagined_group(-1, 4); }, "imagined_group: there is no rank -1 among 4");
}

}  // namespace
}  // namespace reprise::distributed
