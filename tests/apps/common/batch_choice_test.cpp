// What ranks measure may differ; what they train with may not.
#include "reprise/apps/common/batch_choice.h"

#include <gtest/gtest.h>

#include <thread>

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
