// What ranks measure may differ; what they train with may not.
#include "reprise/apps/common/batch_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "reprise/apps/common/memory_advice.h"
#include "reprise/distributed/nccl/nccl_channel.h"
#include "reprise/distributed/threads/thread_groups.h"

namespace reprise::apps {
namespace {

// Windows are of whole gradients, in f32, on several GPUs.
TEST(WindowBytes, AreThoseOfTheGradientsWhereNcclHasThem) {
  const Device gpu = Device::cuda(0), cpu = Device::cpu();
  TrainingOptions plain, scattered, hooked;
  scattered.zero = 2, hooked.wire = "bf16";
  EXPECT_EQ(window_bytes(plain, 100, gpu, 2), 100u);
  EXPECT_EQ(window_bytes(plain, 100, gpu, 1), 0u);
  EXPECT_EQ(window_bytes(plain, 100, cpu, 2), 0u);
  EXPECT_EQ(window_bytes(scattered, 100, gpu, 2), 0u);
  EXPECT_EQ(window_bytes(hooked, 100, gpu, 2), 0u);
}

// What a failed step has made of them is held, and so in what is measured after it.
TEST(WindowBytes, ThatAreThereAreNotToCome) {
  setenv("REPRISE_EMULATOR_DEVICES", "2", 0);
  if (!distributed::has_nccl() || Device::cuda_count() < 2) GTEST_SKIP() << "needs two devices and NCCL";
  const auto groups = distributed::make_thread_groups(2, {.device = Device::cuda(0)});
  std::vector<std::vector<size_t>> to_come(groups.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < groups.size(); ++r)
    ranks.emplace_back([&, r] {
      distributed::ProcessGroup& group = *groups[r];
      const AdviceCase asked = advice_case({}, group.device(), group);
      auto look = [&] { to_come[r].push_back(asked.windows_to_come(100'000)); };
      look();
      const Tensor first = group.make_window(1024, DType::f32), second = group.make_window(2048, DType::f32);
      look();
      group.end_window(second);
      group.all_reduce(Tensor::zeros({1}, DType::f32, group.device())).synchronize();  // it ends
      look();
    });
  for (std::thread& rank : ranks) rank.join();
  for (const std::vector<size_t>& of_rank : to_come)
    EXPECT_EQ(of_rank, (std::vector<size_t>{100'000, 100'000 - 4096 - 8192, 100'000 - 4096}));
}

TEST(BatchChoice, APlanIsTheFirstRanks) {
  const std::vector<recompute::Plan> own = {recompute::parse_plan("[0-1] 2 [3]"),
                                            recompute::parse_plan("0 1 [2-3]"), recompute::plan_none(4)};
  auto groups = distributed::make_thread_groups(int(own.size()));
  std::vector<recompute::Plan> got(own.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < own.size(); ++r)
    ranks.emplace_back([&, r] { got[r] = of_first_rank(own[r], *groups[r]); });
  for (std::thread& rank : ranks) rank.join();
  for (const recompute::Plan& plan : got) EXPECT_EQ(to_string(plan), "[0-1] 2 [3]");
}

TEST(BatchChoice, IsTheFirstRanks) {
  const std::vector<BatchChoice> own = {{.batch = 6, .accumulate = 4, .recompute = "plan:[0-2] 3 [4]"},
                                        {.batch = 12, .accumulate = 2, .recompute = "none"},
                                        {.batch = 3, .accumulate = 8, .recompute = "full"}};
  auto groups = distributed::make_thread_groups(int(own.size()));
  std::vector<BatchChoice> got(own.size());
  std::vector<std::thread> ranks;
  for (size_t r = 0; r < own.size(); ++r)
    ranks.emplace_back([&, r] { got[r] = of_first_rank(own[r], *groups[r]); });
  for (std::thread& rank : ranks) rank.join();
  for (const BatchChoice& choice : got) {
    EXPECT_EQ(choice.batch, 6);
    EXPECT_EQ(choice.accumulate, 4);
    EXPECT_EQ(choice.recompute, "plan:[0-2] 3 [4]");
  }
}

}  // namespace
}  // namespace reprise::apps
