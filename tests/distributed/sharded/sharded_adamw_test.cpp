// ShardedAdamW and ShardedSgd: weights, norms and state of AdamW and Sgd in one process, to the bit, on 1 to 4 ranks at stages 0 to 3.
// labels: slow, concurrency
// not in asan: Cases/ShardedBits.*/purebf16split:Cases/ShardedBits.*/puref16withascale:Cases/ShardedBits.*/bf16:Cases/ShardedBits.*/sgdpuref16withascale:Cases/ShardedBits.*/sgdpurebf16split
// not in tsan: Cases/ShardedBits.*/purebf16:Cases/ShardedBits.*/purebf16split:Cases/ShardedBits.*/puref16withascale:Cases/ShardedBits.*/bf16:Cases/ShardedBits.*/f16withascale:Cases/ShardedBits.*/sgd:Cases/ShardedBits.*/sgdnesterovpurebf16:Cases/ShardedBits.*/sgdpuref16withascale:Cases/ShardedBits.*/purebf16stochastic:Cases/ShardedBits.*/f32:Cases/ShardedBits.*/sgdpurebf16split
// slow in tsan
#include "reprise/distributed/sharded/sharded_adamw.h"

#include <gtest/gtest.h>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/sharded/gather_weights.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/distributed/sharded/wide_net.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;
using testing::run_ranks;
using testing::ShardedCase;
using testing::ShardedRun;

constexpr int64_t micro_batches = 12;
constexpr BucketOptions kSmall{.bytes = 300000, .first_bytes = 1000};

// Three steps, of which the second one's gradients are not finite where the loss has a scale.
std::string train(ProcessGroup& group, const ShardedCase& c, int stage, const BucketOptions& buckets) {
  ShardedRun run(group, c, stage, buckets);
  std::string lines;
  for (int step = 0; step < 3; ++step) lines += run.step(step, micro_batches, c.scale == 0 || step != 1);
  return lines + "state\n" + run.state();
}

class ShardedBits : public ::testing::TestWithParam<ShardedCase> {};

TEST_P(ShardedBits, AreThoseOfOneProcess) {
  const ShardedCase& c = GetParam();
  const std::string want = train(*ProcessGroup::alone(), c, -1, {});
  const std::string weights = want.substr(0, want.find("state\n") + 6);
  EXPECT_NE(weights, want);
  for (int ranks = 1; ranks <= 4; ++ranks)
    for (int stage = 0; stage <= 3; ++stage) {
      const auto got = run_ranks(Ranks::threads, ranks, [&](ProcessGroup& group) {
        return train(group, c, stage, ranks == 3 ? BucketOptions{} : kSmall);
      });
      for (size_t rank = 0; rank < got.size(); ++rank)
        EXPECT_EQ(got[rank], rank == 0 ? want : weights) << ranks << " ranks, stage " << stage;
    }
}

INSTANTIATE_TEST_SUITE_P(Cases, ShardedBits, ::testing::ValuesIn(testing::sharded_cases()),
                         testing::name_of_case);

TEST(ShardedBits, AreThoseOfOneProcessOverGloo) {
  const ShardedCase c{"f32"};
  const std::string want = train(*ProcessGroup::alone(), c, -1, {});
  for (Ranks kind : testing::kinds_of_ranks())
    for (int stage : {1, 2, 3})
      EXPECT_EQ(run_ranks(kind, 3, [&](ProcessGroup& group) { return train(group, c, stage, {}); })[0], want);
}

// A state saved in one process goes on at any stage and count.
void expect_goes_on(const ShardedCase& c) {
  auto alone = ProcessGroup::alone();
  ShardedRun whole(*alone, c, -1, {});
  whole.step(0, micro_batches);
  const nn::NamedTensors weights = whole.net().state_dict(), state = whole.optimizer().state_dict();
  nn::NamedTensors kept_weights, kept_state;
  for (const auto& [name, x] : weights) kept_weights.emplace_back(name, x.detach().clone());
  for (const auto& [name, x] : state) kept_state.emplace_back(name, x.clone());
  const std::string want = whole.step(1, micro_batches) + whole.state();
  for (int ranks : {2, 4})
    for (int stage : {0, 1, 2, 3}) {
      const auto got = run_ranks(Ranks::threads, ranks, [&](ProcessGroup& group) {
        ShardedRun run(group, c, stage, kSmall);
        std::optional<WholeWeights> held(run.parallel());
        run.net().load_state_dict(kept_weights);
        held.reset();
        run.optimizer().load_state_dict(kept_state);
        return run.step(1, micro_batches) + run.state();
      });
      EXPECT_EQ(got[0], want) << ranks << " ranks, stage " << stage;
    }
}

TEST(ShardedState, GoesOnAtAnotherStageAndCount) {
  expect_goes_on({"pure bf16", DType::bf16, true, {.moments = DType::u8, .seed = 6}, 0});
  expect_goes_on({"sgd", DType::bf16, true, {}, 0, optim::SgdOptions{.momentum = 0.9}});
  for (const optim::Master master : {optim::Master::split, optim::Master::stochastic})
    expect_goes_on(
        {"sgd", DType::bf16, true, {}, 0, optim::SgdOptions{.momentum = 0.9, .master = master, .seed = 8}});
}

// What all ranks write to whole weights goes into the master copies of their shards too.
TEST(ShardedState, MastersFollowWhatIsWrittenToWholeWeights) {
  const ShardedCase c{"pure bf16", DType::bf16, true, {}, 0};
  auto halved = [&](ProcessGroup& group, int stage) {
    ShardedRun run(group, c, stage, kSmall);
    run.step(0, micro_batches);
    {
      const WholeWeights whole(run.parallel());
      NoGrad guard;
      for (const Tensor& x : run.net().parameters()) x.mul_(0.5);
    }
    return run.step(1, micro_batches);
  };
  const std::string want = halved(*ProcessGroup::alone(), -1);
  for (int stage : {1, 2, 3})
    for (const std::string& got :
         run_ranks(Ranks::threads, 3, [&](ProcessGroup& group) { return halved(group, stage); }))
      EXPECT_EQ(got, want) << "stage " << stage;
}

TEST(ShardedGradients, CannotBeReadWhole) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    const ShardedCase c{"f32"};
    ShardedRun run(group, c, 2, kSmall);
    run.backward(0, 2, true);
    EXPECT_TRUE(run.net().wide.weight.grad().is_hollow());
    EXPECT_FALSE(run.net().never.weight.grad().defined());
    expect_error([&] { optim::grad_norm(run.net().parameters()); }, "hollow");
    expect_error([&] { run.parallel().share(2); }, "has a gradient already");
    run.optimizer().zero_grad();
    run.parallel().share(2);
    for (size_t i = 0; i < run.parallel().leaves().size(); ++i)
      EXPECT_FALSE(run.parallel().own_gradient(i).defined());
    return "";
  });
}

TEST(ShardedAdamW, RefusesWhatItCannotDo) {
  auto group = ProcessGroup::alone();
  testing::WideNet net, other;
  DataParallel parallel(net, *group);
  expect_error([&] { ShardedAdamW(parallel, optim::decay_matrices(net, 1e-3, 0), {.stage = 4}); },
               "ShardedAdamW: stage is 4; there are 0 to 3");
  expect_error([&] { ShardedSgd(parallel, optim::decay_matrices(net, 1e-3, 0), {.blocks = {&net.wide}}); },
               "ShardedSgd: stage 1 has weights whole, and no blocks");
  expect_error([&] { ShardedAdamW(parallel, optim::decay_matrices(other, 1e-3, 0)); },
               "ShardedAdamW: parameter 0 of shape (200, 300) is not trained by its DataParallel");
}

TEST(ShardedAdamW, RefusesAnUpdateBeforeTheLastMicroBatch) {
  auto group = ProcessGroup::alone();
  testing::WideNet net;
  DataParallel parallel(net, *group);
  ShardedAdamW optimizer(parallel, optim::decay_matrices(net, 1e-3, 0));
  parallel.share(2);
  expect_error([&] { optimizer.step(); },
               "step: the step is not over: micro-batches 0 to 1 have not been given to backward");
}

TEST(ShardedAdamW, OfAnotherStageOnAnotherRankIsADesync) {
  for (const Ranks kind : testing::kinds_of_ranks())
    for (const int stage : {0, 1, 2}) {
      const auto told = run_ranks(kind, 2,
                                  [&](ProcessGroup& group) {
                                    const ShardedCase c = testing::sharded_cases().front();
                                    return train(group, c, stage + group.rank(), kSmall);
                                  },
                                  {.timeout = std::chrono::seconds(20)});
      for (const std::string& one : told)
        EXPECT_TRUE(one.starts_with("mismatch: desync at call ")) << stage << ": " << one;
    }
}

TEST(Shards, AreCutAtPiecesAndCoverEachElementOnce) {
  constexpr int64_t piece = kernels::kSquaresPiece;
  const std::vector<int64_t> numel = {5, 10 * piece + 3, 0, piece, 1};
  int64_t total = 0;
  for (int64_t n : numel) total += n;
  const std::vector<Bucket> buckets = {{DType::f32, {4, 3, 2, 1, 0}, total}};
  for (int ranks = 1; ranks <= 5; ++ranks) {
    const Shards shards(buckets, numel, ranks);
    std::vector<int64_t> covered(numel.size());
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t offset = 0;
      for (const Shard& shard : shards.of(0, rank)) {
        EXPECT_EQ(shard.range.begin % piece, 0);
        EXPECT_EQ(shard.range.begin, covered[shard.parameter]) << "in the order of ranks";
        EXPECT_EQ(shard.offset, offset);
        EXPECT_EQ(shards.of_parameter(shard.parameter, rank).range, shard.range);
        covered[shard.parameter] = shard.range.end;
        offset += shard.range.count();
      }
      EXPECT_LE(offset, shards.part_numel(0));
    }
    EXPECT_EQ(covered, numel);
    EXPECT_LE(shards.part_numel(0), total / ranks + piece);
  }
}

}  // namespace
}  // namespace reprise::distributed
