// Averages of weights that ranks share have the bits of one process, of any optimizer, precision and stage.
// labels: slow, concurrency
// not in asan: Cases/GatherAverages.*/purebf16split:Cases/GatherAverages.*/puref16withascale:Cases/GatherAverages.*/bf16:Cases/GatherAverages.*/sgdpuref16withascale:Cases/GatherAverages.*/u8moments:Cases/GatherAverages.*/sgdpurebf16split:Cases/GatherAverages.*/sgdpurebf16stochasticwithascale
// not in tsan: Cases/GatherAverages.*/purebf16:Cases/GatherAverages.*/purebf16split:Cases/GatherAverages.*/puref16withascale:Cases/GatherAverages.*/bf16:Cases/GatherAverages.*/f16withascale:Cases/GatherAverages.*/sgd:Cases/GatherAverages.*/sgdnesterovpurebf16:Cases/GatherAverages.*/sgdpuref16withascale:Cases/GatherAverages.*/u8moments:Cases/GatherAverages.*/sgdpurebf16split:Cases/GatherAverages.*/sgdpurebf16stochasticwithascale
// slow in tsan
#include "reprise/distributed/sharded/gather_averages.h"

#include <gtest/gtest.h>

#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/distributed/sharded/averages_run.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::averages_of;
using testing::expect_error;
using testing::Ranks;
using testing::ShardedCase;
using testing::ShardedRun;

constexpr BucketOptions kSmall{.bytes = 300000, .first_bytes = 1000};

class GatherAverages : public ::testing::TestWithParam<ShardedCase> {};

TEST_P(GatherAverages, HaveTheBitsOfOneProcess) {
  const ShardedCase& c = GetParam();
  const std::string want = averages_of(*ProcessGroup::alone(), c, -1, kSmall);
  for (const int ranks : {1, 2, 4})
    for (const int stage : {0, 1, 2, 3}) {
      const std::vector<std::string> got = testing::run_ranks(
          Ranks::threads, ranks, [&](ProcessGroup& group) { return averages_of(group, c, stage, kSmall); });
      EXPECT_EQ(got[0], want) << ranks << " ranks, stage " << stage;
      for (const std::string& looked : got)
        EXPECT_TRUE(looked.size() > 100 && want.ends_with(looked))
            << ranks << " ranks, stage " << stage << ": " << looked;
    }
}

// Bytes that averages take on a rank.
std::string bytes_of_averages(ProcessGroup& group, int stage) {
  const ShardedCase f32{"f32"};
  ShardedRun run(group, f32, stage, kSmall);
  const auto optimizer = size_t(MemoryCategory::optimizer);
  const Allocator& memory = allocator(Device::cpu());
  run.optimizer().allocate_state();
  const size_t before = memory.stats().by_category[optimizer];
  std::optional<optim::Ema> ema;
  {
    const WholeWeights whole(run.parallel());
    ema.emplace(run.net(), 0.75);
  }
  ema->follow_masters(run.optimizer());
  ema->update();
  return std::to_string(memory.stats().by_category[optimizer] - before);
}

TEST(GatherAverages, AreOfTheOwnShardsFromStage3On) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  const int64_t n = testing::WideNet().parameter_count(), around = 5 * 5 + 5 + 3 * 3 + 3;
  for (const auto& [stage, want] : {std::pair(0, 2 * n), std::pair(2, 2 * n), std::pair(3, n + around)}) {
    int64_t bytes = 0;
    for (const std::string& of_rank : testing::run_ranks(
             Ranks::gloo, 2, [&](ProcessGroup& group) { return bytes_of_averages(group, stage); }))
      bytes += std::stoll(of_rank);
    EXPECT_EQ(bytes, 4 * want) << "stage " << stage;
  }
}

// Of whole averages a rank keeps its elements.
TEST(GatherAverages, LoadTheirPart) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    const ShardedCase f32{"f32"};
    ShardedRun run(group, f32, 3, kSmall);
    std::optional<WholeWeights> whole(run.parallel());
    optim::Ema ema(run.net(), 0.75);
    whole.reset();
    ema.follow_masters(run.optimizer());
    nn::NamedTensors given;
    for (const auto& [name, x] : ema.state_dict()) {
      std::vector<float> values(size_t(x.numel()));
      for (size_t i = 0; i < values.size(); ++i) values[i] = float(i) + 0.5f;
      given.emplace_back(name, Tensor::from(values, x.shape()));
    }
    ema.load_state_dict(given);
    ema.follow_masters(run.optimizer());  // they stay
    expect_error([&] { ema.load_state_dict(ema.state_dict()); }, {"wide.weight", "is hollow"});
    expect_error([&] { gather_averages(run.parallel(), ema); }, {"whole_averages(parallel, ema)"});
    expect_error([&] { const optim::Ema::Scope look(ema); }, {"wide.weight", "whole_averages"});
    SharedTensors(run.parallel(), &ema).read_on_rank_0([&](const WholeOf& of) {
      for (size_t i = 0; i < given.size(); ++i)
        EXPECT_EQ(of(ema.state_dict()[i].second).to_vector<float>(), given[i].second.to_vector<float>())
            << given[i].first;
    });
    return "";
  });
}

INSTANTIATE_TEST_SUITE_P(Cases, GatherAverages, ::testing::ValuesIn(testing::sharded_cases()),
                         testing::name_of_case);

}  // namespace
}  // namespace reprise::distributed
