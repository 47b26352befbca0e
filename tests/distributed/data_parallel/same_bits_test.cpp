// Gradients and weights of 1, 2, 3 and 4 ranks are equal to the bit, with checkpoints of both modes, one within the other, and
// with buckets of any size; and they are those of micro-batches run alone and added by the tree's definition.
// labels: slow, concurrency
// not in tsan: Transports/SameBits.*/threads12:Transports/SameBits.*/threads6
// slow in tsan
#include <gtest/gtest.h>

#include "reprise/autograd/meta.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/nn/optim/lamb.h"
#include "reprise/nn/optim/lars.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/distributed/data_parallel/shared_net.h"
#include "reprise/tests/distributed/data_parallel/tree_sum.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::Checkpoints;
using testing::checksum;
using testing::Ranks;
using testing::run_ranks;
using testing::SharedNet;

constexpr int kSteps = 2;
constexpr BucketOptions kSmall{.bytes = 1500, .first_bytes = 200};

// A line for each gradient and weight of each step. Also checks that each parameter that is used is ready once in a pass.
std::string train(ProcessGroup& group, int64_t micro_batches, Checkpoints checkpoints,
                  const BucketOptions& buckets) {
  manual_seed(uint64_t(7 * group.rank() + 3));  // rank 0's weights are taken by all
  SharedNet net;
  DataParallel parallel(net, group, buckets);
  optim::AdamW optimizer(optim::decay_matrices(net, 1e-2, 0.1));
  std::map<std::string, int> ready;
  for (const auto& [name, p] : net.named_parameters())
    if (p.requires_grad())
      autograd::register_post_accumulate_hook(p, [&ready, name = name] { ++ready[name]; });
  TextStream lines;
  for (int step = 0; step < kSteps; ++step) {
    optimizer.zero_grad();
    for (int64_t g : parallel.share(micro_batches)) {
      ready.clear();
      parallel.backward(net.loss(step, g, checkpoints), g);
      for (const auto& [name, p] : net.named_parameters()) {
        const bool used =
            p.requires_grad() && !name.starts_with("never") && (g % 2 || !name.starts_with("odd"));
        if (ready[name] != int(used)) lines << "ready " << ready[name] << " times: " << name << '\n';
      }
    }
    for (const auto& [name, p] : net.named_parameters())
      lines << step << " d" << name << ' ' << checksum(p.grad()) << '\n';
    optimizer.step();
    for (const auto& [name, p] : net.named_parameters())
      lines << step << ' ' << name << ' ' << checksum(p) << '\n';
  }
  return lines.str();
}

std::string train_alone(int64_t micro_batches) {
  return train(*ProcessGroup::alone(), micro_batches, Checkpoints::none, {});
}

class SameBits : public ::testing::TestWithParam<std::tuple<Ranks, int64_t>> {
 protected:
  Ranks kind() const { return std::get<0>(GetParam()); }
  int64_t micro_batches() const { return std::get<1>(GetParam()); }
};

TEST_P(SameBits, OnAnyRanksWithAnyCheckpoints) {
  const std::string want = train_alone(micro_batches());
  EXPECT_EQ(want.find("ready"), std::string::npos) << want;
  for (int ranks = 1; ranks <= 4; ++ranks) {
    if (micro_batches() % ranks) continue;
    for (Checkpoints checkpoints : testing::kCheckpoints) {
      const bool is_one_of_few =
          checkpoints == Checkpoints::none || checkpoints == Checkpoints::reentrant_outside;
      if (kind() != Ranks::threads && !is_one_of_few) continue;  // graphs do not depend on the transport
      const auto got = run_ranks(kind(), ranks, [&](ProcessGroup& group) {
        return train(group, micro_batches(), checkpoints,
                     checkpoints == Checkpoints::none ? BucketOptions{} : kSmall);
      });
      for (const std::string& one : got)
        EXPECT_EQ(one, want) << ranks << " ranks, checkpoints " << int(checkpoints);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Transports, SameBits,
                         ::testing::Combine(::testing::ValuesIn(testing::kinds_of_ranks()),
                                            ::testing::Values(4, 6, 8, 12)),
                         [](const auto& of) {
                           return name_of(std::get<0>(of.param)) + std::to_string(std::get<1>(of.param));
                         });

TEST(SameBits, AsMicroBatchesAloneInTheTreesOrder) {
  for (int64_t micro_batches : {1, 2, 3, 7, 12}) {
    auto group = ProcessGroup::alone();
    manual_seed(3);
    SharedNet net;
    DataParallel parallel(net, *group, kSmall);
    std::map<std::string, TensorList> alone;
    for (int64_t g = 0; g < micro_batches; ++g) {
      (net.loss(0, g, Checkpoints::none) * (1.0 / double(micro_batches))).backward();
      for (const auto& [name, p] : net.named_parameters()) alone[name].push_back(p.grad());
      net.zero_grad();
    }
    for (int64_t g : parallel.share(micro_batches)) parallel.backward(net.loss(0, g, Checkpoints::none), g);
    for (const auto& [name, p] : net.named_parameters()) {
      EXPECT_TRUE(testing::same_bits(p.grad(), testing::tree_sum(alone[name], p.shape())))
          << name << " of " << micro_batches;
    }
  }
}

// Optimizers that are not shared between ranks: each rank steps for itself.
TEST(SameBits, OfOtherOptimizersOnAnyRanks) {
  using Make = std::unique_ptr<optim::Optimizer> (*)(const TensorList&);
  const Make makers[] = {[](const TensorList& p) -> std::unique_ptr<optim::Optimizer> {
                           return std::make_unique<optim::Lamb>(p);
                         },
                         [](const TensorList& p) -> std::unique_ptr<optim::Optimizer> {
                           return std::make_unique<optim::Lars>(p);
                         },
                         [](const TensorList& p) -> std::unique_ptr<optim::Optimizer> {
                           return std::make_unique<optim::Sgd>(p,
                                                               optim::SgdOptions{.lr = 0.1, .momentum = 0.9});
                         }};
  for (const Make& make : makers) {
    auto weights = [&](ProcessGroup& group) {
      manual_seed(uint64_t(7 * group.rank() + 3));
      SharedNet net;
      DataParallel parallel(net, group, kSmall);
      const auto optimizer = make(parallel.leaves());
      TextStream lines;
      for (int step = 0; step < kSteps; ++step) {
        optimizer->zero_grad();
        for (int64_t g : parallel.share(4)) parallel.backward(net.loss(step, g, Checkpoints::none), g);
        optimizer->step();
        for (const auto& [name, p] : net.named_parameters())
          lines << step << ' ' << name << ' ' << checksum(p) << '\n';
      }
      return lines.str();
    };
    const std::string want = weights(*ProcessGroup::alone());
    for (int ranks : {2, 4})
      for (const std::string& got : run_ranks(Ranks::threads, ranks, weights))
        EXPECT_EQ(got, want) << "optimizer " << &make - makers << ", " << ranks << " ranks";
  }
}

}  // namespace
}  // namespace reprise::distributed
