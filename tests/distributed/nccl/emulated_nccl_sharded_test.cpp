// ShardedAdamW of ranks with a device each: the bits of AdamW on one device.
// labels: slow, concurrency
// not in asan: EmulatedNcclSharded.*
// slow in tsan
#include <gtest/gtest.h>

#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/tests/distributed/sharded/averages_run.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;
using testing::run_ranks;
using testing::ShardedCase;

constexpr int64_t micro_batches = 6;
constexpr BucketOptions kSmall{.bytes = 300000, .first_bytes = 1000};

// Two steps, of which the second one's gradients are not finite where the loss has a scale.
std::string train(ProcessGroup& group, const ShardedCase& c, int stage) {
  testing::ShardedRun run(group, c, stage, kSmall);
  std::string lines;
  for (int step = 0; step < 2; ++step) lines += run.step(step, micro_batches, c.scale == 0 || step != 1);
  return lines + run.state();
}

TEST(EmulatedNcclSharded, StagesHaveTheBitsOfOneDevice) {
  if (testing::kinds_with_devices().back() != Ranks::nccl) GTEST_SKIP() << "needs five devices";
  std::vector<ShardedCase> cases = testing::sharded_cases();
  if (simt::sanitizer::thread) cases.resize(1);  // minutes each
  const std::pair<int, int> ranks_and_stages[] = {{2, 2}, {3, 1}, {2, 3}};
  for (size_t i = 0; i < cases.size(); ++i) {
    const ShardedCase& c = cases[i];
    const std::string want =
        run_ranks(Ranks::nccl, 1, [&](ProcessGroup& group) { return train(group, c, -1); })[0];
    EXPECT_EQ(want.find("first_moment") != std::string::npos, !c.sgd) << want;
    EXPECT_EQ(want.find("velocity") != std::string::npos, c.sgd && c.sgd->momentum > 0) << want;
    for (size_t k = 0; k < std::size(ranks_and_stages); ++k) {
      if (i % 3 != k && !(i == 0 && !simt::sanitizer::thread))
        continue;  // a third of the pairs, and the first case in all
      const auto [ranks, stage] = ranks_and_stages[k];
      const auto got =
          run_ranks(Ranks::nccl, ranks, [&, at = stage](ProcessGroup& group) { return train(group, c, at); });
      EXPECT_EQ(got[0], want) << c.name << ": " << ranks << " ranks, stage " << stage;
    }
  }
}

// Averages of shards of f32 weights, and of the digits beside 16 bits, read on rank 0 and looked at on both.
TEST(EmulatedNcclSharded, AveragesHaveTheBitsOfOneDevice) {
  if (testing::kinds_with_devices().back() != Ranks::nccl) GTEST_SKIP() << "needs five devices";
  for (const ShardedCase& c : testing::sharded_cases()) {
    if (c.name != "f32" && c.name != "pure bf16, split") continue;
    const std::string want = run_ranks(
        Ranks::nccl, 1, [&](ProcessGroup& group) { return testing::averages_of(group, c, -1, kSmall); })[0];
    const auto got = run_ranks(
        Ranks::nccl, 2, [&](ProcessGroup& group) { return testing::averages_of(group, c, 3, kSmall); });
    EXPECT_EQ(got[0], want) << c.name;
    EXPECT_TRUE(got[1].size() > 100 && want.ends_with(got[1])) << c.name << ": " << got[1];
  }
}

}  // namespace
}  // namespace reprise::distributed
