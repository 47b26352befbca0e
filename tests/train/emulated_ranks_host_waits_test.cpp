// What a step of several GPUs with a loss scale waits for: for the calls that ranks make together, and for no number of its
// own. Whether an overflow of one rank's leaves the update out is known to the devices alone, in the gradients that were added.
// labels: slow
#include <cmath>
#include <cstdlib>
#include <thread>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/ops.h"
#include "reprise/core/cuda/emulated_queue.h"
#include "reprise/core/cuda/runtime.h"
#include "reprise/core/random.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/io/run_log.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/tests/support/compare.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using cuda::emulated::HostWaits;
using distributed::ProcessGroup;
using testing::TempFolder;

constexpr int ranks = 2, bad_rank = 1;
constexpr int64_t steps = 6, bad_step = 3, context = 8, alphabet = 11;

class EmulatedRanksHostWaits : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("REPRISE_EMULATOR_DEVICES", "2", 0);
    if (!distributed::has_nccl() || cuda::device_count() < ranks)
      GTEST_SKIP() << "needs two devices and NCCL";
    cuda::emulated::set_streams(cuda::emulated::Streams::deferred);
  }
  void TearDown() override { cuda::emulated::set_streams(before_); }

 private:
  const cuda::emulated::Streams before_ = cuda::emulated::streams();
};

struct Seen {
  std::vector<HostWaits> at;  // of all ranks, as this one begins the forward pass of a step
  TensorList weights;
};

Seen train_on(ProcessGroup& group, int stage, const std::string& folder) {
  manual_seed(3);
  nn::Gpt model({.vocab_size = alphabet, .context = context, .layers = 1, .heads = 1, .width = 8});
  model.to(group.device());
  distributed::DataParallel parallel(model, group);
  distributed::ShardedAdamW optimizer(parallel, {{.parameters = model.parameters()}}, {.stage = stage});
  std::vector<int64_t> numbers(2 * (context + 1));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = int64_t(i * i) % alphabet;
  const Tensor tokens = Tensor::from(numbers, {2, context + 1}).to(group.device());
  Seen seen;
  Task task{.model = model,
            .optimizer = optimizer,
            .units_per_step = 1,
            .loss =
                [&](int64_t step, int64_t) {
                  seen.at.push_back(cuda::emulated::host_waits());
                  amp::Autocast scope(group.device(), DType::f16);
                  const Tensor loss =
                      cross_entropy(model(tokens.slice(1, 0, context)), tokens.slice(1, 1, context + 1));
                  return step == bad_step && group.rank() == bad_rank ? loss * double(INFINITY) : loss;
                },
            .validation_loss = [](bool) { return 1.0; }};
  train(task,
        {.run_folder = folder,
         .schedule = {.lr = 1e-3, .steps = steps},
         .accumulate = ranks,
         .loss_scale = 1024,
         .eval_every = 0,
         .save_every = 0},
        parallel);
  for (const auto& [name, x] : model.named_parameters()) seen.weights.push_back(x.detach().to(Device::cpu()));
  return seen;
}

TEST_F(EmulatedRanksHostWaits, NoRankWaitsToKnowWhetherAnUpdateIsMade) {
  for (int stage : {0, 2}) {  // of ZeRO: whole gradients, and shards of them
    TempFolder folder;
    auto groups = distributed::make_thread_groups(ranks, {.device = Device::cuda()});
    std::vector<Seen> seen(ranks);
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        seen[rank] = train_on(*groups[rank], stage, rank == 0 ? folder.path() : "nowhere");
        groups[rank].reset();
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(seen[0].at.size(), size_t(steps));
    // The first step's numbers are shown at once. No rank begins a step before all have ended the one before.
    const HostWaits first = seen[0].at[2], last = seen[0].at[steps - 1];
    EXPECT_EQ(last.streams - first.streams, 0u) << "stage " << stage;
    EXPECT_EQ(last.copies - first.copies, 0u) << "stage " << stage;
    EXPECT_LE(last.events - first.events, 2u * ranks * (steps - 3)) << "stage " << stage;
    for (size_t i = 0; i < seen[0].weights.size(); ++i)
      EXPECT_TRUE(testing::same_bits(seen[1].weights[i], seen[0].weights[i])) << "stage " << stage;
    std::vector<double> skipped;
    for (const io::RunRecord& record : io::read_run_log(folder.path() + "/metrics.jsonl"))
      for (const auto& [name, value] : record.metrics)
        if (name == "skipped") skipped.push_back(value);
    EXPECT_EQ(skipped, (std::vector<double>{0, 0, 0, 1, 1, 1})) << "stage " << stage;
  }
}

}  // namespace
}  // namespace reprise::train
