// A run whose buckets have the order of arrival goes on with that order, which its checkpoint keeps.
// labels: concurrency
#include "reprise/train/ranks/bucket_order.h"

#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"
#include "reprise/io/folder.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/sgd.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/checkpoint.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using distributed::BucketOptions;
using distributed::BucketOrder;
using distributed::DataParallel;
using distributed::ProcessGroup;
using testing::Ranks;
using testing::TempFolder;

constexpr BucketOptions small{.bytes = 400, .first_bytes = 400, .order = BucketOrder::arrival};

// Called in the order in which they are registered last; of odd sizes, so that parts of a ring depend on what is in a bucket.
struct Turned : nn::Module {
  nn::Linear third{9, 5}, second{11, 9}, first{7, 11};
  Turned() {
    register_module("third", third);
    register_module("second", second);
    register_module("first", first);
  }
  Tensor loss(int64_t step, int64_t g) {
    manual_seed(uint64_t(100 * step + g));
    return square(third(second(first(randn({3, 7}))))).mean();
  }
};

// Sums around a ring depend on what is in a bucket. On three ranks, until step `end`.
std::vector<std::string> train_until(int64_t end, const std::string& folder,
                                     const BucketOptions& buckets = small) {
  return testing::run_ranks(Ranks::threads, 3, [&](ProcessGroup& group) -> std::string {
    manual_seed(5);
    Turned net;
    DataParallel parallel(net, group, buckets);
    parallel.set_sum_order(distributed::SumOrder::fast);
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    Task task{.model = net,
              .optimizer = optimizer,
              .units_per_step = 1,
              .loss = [&](int64_t step, int64_t g) { return net.loss(step, g); },
              .validation_loss = [](bool) { return 1.0; }};
    train(task,
          {.run_folder = folder,
           .resume = true,
           .schedule = {.lr = 0.1, .steps = 8, .decay = optim::Decay::constant},
           .accumulate = 3,
           .save_every = 0,
           .stop_after = end,
           .save_async = false},
          parallel);
    std::string text;
    for (const size_t place : parallel.arrival_order()) text += std::to_string(place) + ' ';
    for (const auto& [name, x] : net.named_parameters()) text += testing::checksum(x) + ' ';
    return text;
  });
}

TEST(KeptBucketOrder, GoesOnToTheSameBits) {
  const TempFolder folder;
  const std::vector<std::string> want = train_until(8, folder / "one");
  EXPECT_TRUE(want[0].starts_with("0 1 2 3 4 5 ")) << want[0];  // the opposite of registration's
  train_until(4, folder / "parts");
  EXPECT_EQ(train_until(4, folder / "parts"), want);
  // Without the file the first step has the order of registration, whose sums are other ones.
  train_until(4, folder / "lost");
  Checkpoint checkpoint = load_checkpoint(folder / "lost", true);
  checkpoint.bucket_order.clear();
  save_checkpoint(folder / "lost", checkpoint, 2);
  EXPECT_NE(train_until(4, folder / "lost"), want) << "the order should tell";
}

TEST(KeptBucketOrder, IsMeasuredAgainWhereItDoesNotFit) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Turned net;
    auto told = [&](const nn::NamedTensors& saved, const BucketOptions& options) {
      DataParallel parallel(net, group, options);
      const std::string text = restore_bucket_order(parallel, saved);
      EXPECT_EQ(parallel.arrival_order().empty(), !text.empty() || options.order != BucketOrder::arrival);
      return text;
    };
    auto i64 = [](const std::vector<int64_t>& x) { return Tensor::from(x, {int64_t(x.size())}); };
    const std::vector<int64_t> order{5, 4, 3, 2, 1, 0};
    const nn::NamedTensors saved{{"order", i64(order)}, {"bytes", i64({400, 400})}};
    EXPECT_EQ(told(saved, small), "");
    EXPECT_EQ(told({}, {}), "");
    EXPECT_EQ(told(saved, {}), "");
    const std::string again = "Buckets: their order of arrival is measured again: the checkpoint";
    EXPECT_EQ(told({}, small), again + " has none");
    EXPECT_EQ(told(saved, {.bytes = 500, .first_bytes = 300, .order = BucketOrder::arrival}),
              again + "'s is of buckets of 400 and 400 bytes, now 300 and 500");
    EXPECT_EQ(told({{"order", i64({0, 1})}, {"bytes", i64({400, 400})}}, small),
              again + "'s is of 2 parameters, now 6");
    EXPECT_EQ(told({{"order", i64({0, 1, 2, 3, 4, 4})}, {"bytes", i64({400, 400})}}, small),
              again + "'s does not name each parameter once");
    EXPECT_EQ(told({{"order", i64(order)}}, small), again + " does not say of which buckets its own is");
    return "";
  });
}

// What one process writes of a checkpoint has none: it sends nothing.
TEST(KeptBucketOrder, IsNotConsolidated) {
  const TempFolder folder;
  train_until(2, folder / "run");
  const std::string file = "/bucket_order.safetensors";
  EXPECT_TRUE(io::exists(folder / "run/checkpoints/step-00000002" + file));
  consolidate_checkpoint(folder / "run", folder / "whole");
  EXPECT_FALSE(io::exists(folder / "whole" + file));
  train_until(2, folder / "plain", {.bytes = 400, .first_bytes = 400});
  EXPECT_FALSE(io::exists(folder / "plain/checkpoints/step-00000002" + file));
}

}  // namespace
}  // namespace reprise::train
