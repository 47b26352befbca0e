// Buckets in the order of arrival: gradients that rank 0's first step had ready first are sent first, on all ranks, and no bit
// changes.
// labels: concurrency
#include <gtest/gtest.h>

#include <algorithm>

#include "reprise/autograd/ops.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;

constexpr int64_t width = 4;
constexpr BucketOptions by_arrival{
    .bytes = 1, .first_bytes = 1, .order = BucketOrder::arrival};  // a parameter each

// The layers are called in the order in which they are registered last: the opposite of what registration makes of it.
struct Turned : nn::Module {
  nn::Linear third{width, width}, never{width, width}, second{width, width}, first{width, width};
  Turned() {
    register_module("third", third);
    register_module("never", never);
    register_module("second", second);
    register_module("first", first);
  }
  Tensor loss(const ProcessGroup& group, int step, int64_t g) {
    manual_seed(uint64_t(100 * step + g));
    const Tensor x = randn({3, width}).to(group.device());
    // Backward of other ranks than the first goes another way.
    const Tensor y = group.rank() == 0 ? third(second(first(x))) : first(second(third(x)));
    return square(y).mean();
  }
};

std::vector<std::string> layers_in_order(const Turned& net, const DataParallel& parallel) {
  std::vector<std::string> layers;
  for (const Bucket& bucket : parallel.buckets())
    for (const size_t i : bucket.parameters) {
      const std::string name = net.named_parameters()[i].first, layer = name.substr(0, name.find('.'));
      if (layers.empty() || layers.back() != layer) layers.push_back(layer);
    }
  return layers;
}

TEST(BucketOrder, IsThatOfRank0sFirstBackward) {
  for (const Ranks kind : testing::kinds_with_devices())
    testing::expect_ranks_well(kind, 2, [](ProcessGroup& group) -> std::string {
      using Layers = std::vector<std::string>;
      Turned net;
      net.to(group.device());
      DataParallel parallel(net, group, by_arrival);
      EXPECT_EQ(layers_in_order(net, parallel), (Layers{"first", "second", "never", "third"}));
      for (int step = 0; step < 3; ++step) {
        net.zero_grad();
        for (const int64_t g : parallel.share(4)) parallel.backward(net.loss(group, step, g), g);
        const Layers got = layers_in_order(net, parallel);
        if (got != Layers{"third", "second", "first", "never"})
          return detail::join("step ", step, ": first of all comes ", got[0]);
      }
      return "";
    });
}

std::string trained(ProcessGroup& group, const BucketOptions& options, SumOrder order) {
  manual_seed(5);
  Turned net;
  net.to(group.device());
  DataParallel parallel(net, group, options);
  parallel.set_sum_order(order);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::string lines;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    for (const int64_t g : parallel.share(4)) parallel.backward(net.loss(group, step, g), g);
    optimizer.step();
    for (const auto& [name, x] : net.named_parameters())
      lines += detail::join(step, ' ', name, ' ', testing::checksum(x), '\n');
  }
  return lines;
}

TEST(BucketOrder, ChangesNoBitOfTheTree) {
  for (const Ranks kind : testing::kinds_with_devices())
    for (const int64_t bytes : {1, 100, 1 << 20}) {
      auto run = [&](BucketOrder order) {
        const BucketOptions options{.bytes = bytes, .first_bytes = bytes, .order = order};
        return testing::run_ranks(
            kind, 2, [=](ProcessGroup& group) { return trained(group, options, SumOrder::tree); });
      };
      const auto want = run(BucketOrder::registration);
      EXPECT_EQ(want[0].find("Error"), std::string::npos) << want[0];
      EXPECT_EQ(run(BucketOrder::arrival), want) << name_of(kind) << ' ' << bytes;
    }
}

// An order of an earlier run is taken as it is, and kept by one process.
TEST(BucketOrder, IsTakenFromAnEarlierRun) {
  for (const int ranks : {1, 2})
    testing::expect_ranks_well(Ranks::threads, ranks, [](ProcessGroup& group) -> std::string {
      Turned net;
      DataParallel registered(net, group);
      testing::expect_error([&] { registered.set_arrival_order({0}); }, {"the order of registration"});
      DataParallel parallel(net, group, by_arrival);
      EXPECT_TRUE(parallel.arrival_order().empty());
      testing::expect_error([&] { parallel.set_arrival_order({0, 1, 2, 3, 4, 5, 6, 6}); }, {"each of 8"});
      testing::expect_error([&] { parallel.set_arrival_order({0, 1}); }, {"each of 8"});
      const std::vector<size_t> order{7, 6, 0, 1, 4, 5, 2, 3};
      parallel.set_arrival_order(order);
      testing::expect_error([&] { parallel.set_arrival_order(order); }, {"order of arrival already"});
      for (int step = 0; step < 2; ++step) {
        net.zero_grad();
        for (const int64_t g : parallel.share(4)) parallel.backward(net.loss(group, step, g), g);
        EXPECT_EQ(parallel.arrival_order(), order);
        const std::vector<std::string> want{"first", "third", "second", "never"};
        EXPECT_EQ(layers_in_order(net, parallel), want) << step;
      }
      return "";
    });
}

TEST(BucketOrder, OfAnotherRankIsRefused) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Turned net;
    DataParallel parallel(net, group, by_arrival);
    std::vector<size_t> order{7, 6, 0, 1, 4, 5, 2, 3};
    if (group.rank() == 1) std::swap(order[1], order[2]);
    testing::expect_error([&] { parallel.set_arrival_order(order); },
                          {"set_arrival_order: ranks differ", "first.weight", "third.weight"});
    return "";
  });
}

TEST(BucketOrder, OfArrivalIsRefusedWhereRanksShareState) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Turned net;
    DataParallel parallel(net, group, by_arrival);
    testing::expect_error([&] { ShardedAdamW(parallel, optim::decay_matrices(net, 1e-3, 0), {.stage = 1}); },
                          {"ShardedAdamW: ", "BucketOrder::registration"});
    testing::expect_error([&] { parallel.scatter_gradients(); },
                          {"scatter_gradients: ", "BucketOrder::arrival"});
    ShardedAdamW(parallel, optim::decay_matrices(net, 1e-3, 0), {.stage = 0});
    return "";
  });
}

}  // namespace
}  // namespace reprise::distributed
