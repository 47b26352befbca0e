// Buffers of rank 0 before each forward: what any rank's forward sees is what rank 0's has left.
// labels: concurrency
#include <gtest/gtest.h>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/compare.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;

// A buffer that forward adds 1 to on rank 0, and 10 on others.
struct Counted : nn::Module {
  nn::Linear layer{2, 2};
  Tensor count = Tensor::zeros({1});
  Counted() {
    register_module("layer", layer);
    count = register_buffer("count", count);
  }
  Tensor loss(int rank) {
    {
      NoGrad guard;
      count.copy_(count + (rank == 0 ? 1.0 : 10.0));
    }
    return square(layer(ones({3, 2}))).mean();
  }
};

TEST(BufferRule, EveryForwardBeginsWithRank0s) {
  for (const Ranks kind : testing::kinds_of_ranks())
    testing::expect_ranks_well(kind, 3, [](ProcessGroup& group) -> std::string {
      Counted net;
      DataParallel parallel(net, group);
      parallel.set_buffer_rule(BufferRule::every_forward);
      std::vector<float> seen;
      for (int step = 0; step < 2; ++step) {
        net.zero_grad();
        if (group.rank() == 1) net.count.fill_(-5);  // between two steps
        for (const int64_t g : parallel.share(6)) {
          seen.push_back(net.count.to_vector<float>()[0]);
          parallel.backward(net.loss(group.rank()), g);
        }
      }
      seen.push_back(net.count.to_vector<float>()[0]);
      return seen == std::vector<float>{0, 1, 2, 3, 4} ? "" : testing::checksum(net.count) + " in the end";
    });
}

// Rank 0's batches alone, one by one, as a process of its own tells them to the running statistics.
TEST(BufferRule, RunningStatisticsAreThoseOfRank0sBatches) {
  auto batch = [](int step, int64_t g) {
    manual_seed(uint64_t(10 * step + g));
    return randn({5, 3});
  };
  nn::BatchNorm1d alone(3);
  for (int step = 0; step < 2; ++step)
    for (const int64_t g : {0, 1}) alone(batch(step, g));
  auto of_rank = [&](ProcessGroup& group) {
    nn::BatchNorm1d norm(3);
    DataParallel parallel(norm, group);
    parallel.set_buffer_rule(BufferRule::every_forward);
    for (int step = 0; step < 2; ++step) {
      norm.zero_grad();
      for (const int64_t g : parallel.share(4)) parallel.backward(square(norm(batch(step, g))).mean(), g);
    }
    std::string all;
    for (const auto& [name, buffer] : norm.named_buffers())
      all += name + ' ' + testing::checksum(buffer) + '\n';
    return all;
  };
  std::string want;
  for (const auto& [name, buffer] : alone.named_buffers())
    want += name + ' ' + testing::checksum(buffer) + '\n';
  EXPECT_EQ(testing::run_ranks(Ranks::threads, 2, of_rank), std::vector<std::string>(2, want));
}

TEST(BufferRule, OfOthersIsToFold) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Counted net;
    DataParallel parallel(net, group);
    parallel.set_buffer_rule(BufferRule::every_forward);
    for (const int64_t g : parallel.share(2)) parallel.backward(net.loss(group.rank()), g);
    parallel.set_buffer_rule(BufferRule::folded);
    net.zero_grad();
    const int64_t g = parallel.share(2).front();
    testing::expect_error([&] { parallel.backward(net.loss(group.rank()), g); },
                          "has changed count in place");
    return "";
  });
}

}  // namespace
}  // namespace reprise::distributed
