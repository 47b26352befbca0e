// Averages of weights that ranks share have the bits of one process, of any optimizer, precision and stage.
// labels: slow, concurrency
// not in asan: Cases/GatherAverages.*/purebf16split:Cases/GatherAverages.*/puref16withascale:Cases/GatherAverages.*/bf16:Cases/GatherAverages.*/sgdpuref16withascale:Cases/GatherAverages.*/u8moments
// not in tsan: Cases/GatherAverages.*/purebf16:Cases/GatherAverages.*/purebf16split:Cases/GatherAverages.*/puref16withascale:Cases/GatherAverages.*/bf16:Cases/GatherAverages.*/f16withascale:Cases/GatherAverages.*/sgd:Cases/GatherAverages.*/sgdnesterovpurebf16:Cases/GatherAverages.*/sgdpuref16withascale:Cases/GatherAverages.*/u8moments
// slow in tsan
#include "reprise/distributed/sharded/gather_averages.h"

#include <gtest/gtest.h>

#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/distributed/sharded/wide_net.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;
using testing::ShardedCase;
using testing::ShardedRun;

constexpr int64_t micro_batches = 12;
constexpr BucketOptions kSmall{.bytes = 300000, .first_bytes = 1000};

// The averages after each of three steps, and what an evaluation with them says.
std::string averages_of(ProcessGroup& group, const ShardedCase& c, int stage) {
  ShardedRun run(group, c, stage, kSmall);
  std::unique_ptr<optim::Ema> ema;
  {
    const WholeWeights whole(run.parallel());
    ema = std::make_unique<optim::Ema>(run.net(), 0.75);
  }
  ema->follow_masters(run.optimizer());
  TextStream lines;
  for (int step = 0; step < 3; ++step) {
    run.step(step, micro_batches);
    ema->update();
    const WholeWeights whole(run.parallel());
    gather_averages(run.parallel(), *ema);
    for (const auto& [name, x] : ema->state_dict()) lines << name << ' ' << testing::checksum(x) << '\n';
    const optim::Ema::Scope look(*ema);
    for (const auto& [name, x] : run.net().named_parameters()) lines << testing::checksum(x) << '\n';
  }
  return lines.str() + run.step(3, micro_batches);  // a look has changed nothing
}

class GatherAverages : public ::testing::TestWithParam<ShardedCase> {};

TEST_P(GatherAverages, HaveTheBitsOfOneProcess) {
  const ShardedCase& c = GetParam();
  const std::string want = averages_of(*ProcessGroup::alone(), c, -1);
  for (const int ranks : {1, 2, 4})
    for (const int stage : {0, 1, 2, 3})
      for (const std::string& got : testing::run_ranks(
               Ranks::threads, ranks, [&](ProcessGroup& group) { return averages_of(group, c, stage); }))
        EXPECT_EQ(got, want) << ranks << " ranks, stage " << stage;
}

INSTANTIATE_TEST_SUITE_P(Cases, GatherAverages, ::testing::ValuesIn(testing::sharded_cases()),
                         testing::name_of_case);

}  // namespace
}  // namespace reprise::distributed
