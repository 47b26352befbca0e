// Loops of one's own: passes without numbers, NoSync, and hooks that send the buckets.
// labels: concurrency
#include <gtest/gtest.h>

#include <mutex>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/distributed/sharded/wide_net.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;
using testing::WideNet;

constexpr BucketOptions kSmall{.bytes = 300000, .first_bytes = 1000};

std::unique_ptr<WideNet> made() {
  manual_seed(3);
  return std::make_unique<WideNet>();
}

std::string gradients_of(const WideNet& net) {
  std::string lines;
  for (const auto& [name, x] : net.named_parameters())
    lines += name + ' ' + testing::checksum(x.grad()) + '\n';
  return lines;
}

std::string of_one_process(int64_t micro_batches) {
  auto group = ProcessGroup::alone();
  auto net = made();
  DataParallel parallel(*net, *group);
  for (int64_t g : parallel.share(micro_batches)) parallel.backward(net->loss(0, g), g);
  return gradients_of(*net);
}

TEST(NoSync, AddsUpAndSendsOnceToTheBitsOfMicroBatches) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const std::string want = of_one_process(4 * ranks);
    testing::expect_ranks_well(Ranks::threads, ranks, [&](ProcessGroup& group) -> std::string {
      auto net = made();
      DataParallel parallel(*net, group, kSmall);
      for (int round = 0; round < 2; ++round) {
        net->zero_grad();
        for (int64_t i = 0; i < 4; ++i) {
          std::optional<NoSync> wait;
          if (i < 3) wait.emplace(parallel);
          parallel.backward(net->loss(0, 4 * group.rank() + i) * 0.25);
          if (i < 3) {
            EXPECT_FALSE(net->wide.weight.grad().defined());
            expect_error([&] { parallel.share(group.size()); }, "passes in a NoSync have not been sent");
          }
        }
        if (gradients_of(*net) != want) return gradients_of(*net) + "want\n" + want;
      }
      expect_error([&] { parallel.backward(net->loss(0, 0)); }, "has a gradient already");
      net->zero_grad();
      parallel.share(2 * group.size());
      expect_error([&] { parallel.backward(net->loss(0, 0)); }, "the step is not over");
      return "";
    });
  }
}

struct NormNet : nn::Module {
  nn::Linear first{3, 4};
  nn::BatchNorm1d norm{4};
  NormNet() {
    register_module("first", first);
    register_module("norm", norm);
  }
};

TEST(OwnLoops, HaveRank0sBuffersAfterEachStep) {
  testing::expect_ranks_well(Ranks::threads, 3, [](ProcessGroup& group) -> std::string {
    NormNet net;
    DataParallel parallel(net, group);
    manual_seed(uint64_t(group.rank()));
    parallel.backward(square(net.norm(net.first(randn({5, 3})))).mean());
    const auto texts = group.gather_text(testing::checksum(net.norm.running_mean));
    EXPECT_EQ(texts[1], texts[0]);
    EXPECT_EQ(texts[2], texts[0]);
    return texts[0] == testing::checksum(Tensor::zeros({4})) ? "not updated" : "";
  });
}

TEST(BucketHook, SendsEachBucketInOrderInThePlaceOfTheSum) {
  const std::string want = of_one_process(4);
  testing::expect_ranks_well(Ranks::threads, 4, [&](ProcessGroup& group) -> std::string {
    auto net = made();
    DataParallel parallel(*net, group, kSmall);
    std::vector<size_t> seen;
    int finished = 0;
    parallel.set_bucket_hook([&](GradientBucket& bucket, ProcessGroup& ranks) {
      seen.push_back(bucket.index);
      bucket.finish = [&] { ++finished; };
      return ranks.all_reduce(bucket.sums, ReduceOp::sum, bucket.label);
    });
    for (int64_t g : parallel.share(4)) parallel.backward(net->loss(0, g), g);
    EXPECT_EQ(seen.size(), parallel.buckets().size());
    EXPECT_TRUE(std::ranges::is_sorted(seen));
    EXPECT_EQ(size_t(finished), seen.size());
    return gradients_of(*net) == want ? "" : "other gradients";
  });
}

TEST(BucketHook, OfWholeGradientsIsAnErrorWhereTheyAreScattered) {
  testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) -> std::string {
    auto net = made();
    DataParallel parallel(*net, group, kSmall);
    parallel.scatter_gradients();
    parallel.set_bucket_hook([](GradientBucket& bucket, ProcessGroup& ranks) {
      Work work = ranks.all_reduce(bucket.sums, ReduceOp::sum, bucket.label);
      work.wait();  // both ranks throw, each by itself
      return work;
    });
    const int64_t g = parallel.share(2).front();
    expect_error([&] { parallel.backward(net->loss(0, g), g); },
                 "gradients are scattered (ZeRO, stage 2), and the bucket hook has made no part of ");
    return "";
  });
}

// By hand: the sums of two ranks, rounded, added and rounded again.
TEST(BucketHook, CompressedRoundsGoingInInEachSumAndComingOut) {
  std::vector<TensorList> alone(2);
  for (int64_t g : {0, 1}) {
    auto net = made();
    (net->loss(0, g) * 0.5).backward();
    for (const Tensor& x : net->parameters())
      alone[size_t(g)].push_back(x.grad().defined() ? x.grad() : Tensor::zeros(x.shape()));
  }
  testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) -> std::string {
    auto net = made();
    DataParallel parallel(*net, group, kSmall);
    parallel.set_bucket_hook(compressed(DType::bf16));
    for (int64_t g : parallel.share(2)) parallel.backward(net->loss(0, g), g);
    NoGrad guard;
    auto rounded = [](const Tensor& x) { return x.to(DType::bf16).to(DType::f32); };
    const TensorList parameters = net->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!parameters[i].grad().defined()) continue;
      const Tensor want = rounded(rounded(alone[0][i]) + rounded(alone[1][i]));
      if (!testing::same_bits(parameters[i].grad(), want)) return "parameter " + std::to_string(i);
    }
    return "";
  });
  expect_error([] { compressed(DType::f32); }, "gradients are sent in bf16 or f16, not in f32");
}

// Norms and weights at each stage of ZeRO, of whole gradients and of parts.
TEST(BucketHook, CompressedHasTheSameBitsWholeAndScattered) {
  const testing::ShardedCase f32{"f32"}, pure{"pure bf16", DType::bf16, true};
  for (const testing::ShardedCase& c : {f32, pure})
    for (const int ranks : {2, 3, 4}) {
      auto train = [&](int stage, bool is_compressed) {
        return testing::run_ranks(Ranks::threads, ranks, [&](ProcessGroup& group) {
          testing::ShardedRun run(group, c, stage, kSmall);
          if (is_compressed) run.parallel().set_bucket_hook(compressed(DType::bf16));
          return run.step(0, 12) + run.step(1, 12);
        });
      };
      const std::vector<std::string> want = train(0, true);
      EXPECT_NE(want, train(0, false)) << c.name;
      for (const int stage : {1, 2, 3}) EXPECT_EQ(train(stage, true), want) << c.name << stage << ranks;
    }
}

}  // namespace
}  // namespace reprise::distributed
