// Ranks that each run what they like see the weights, or the averages, that one process sees, a block at a time.
// labels: concurrency
// slow in tsan
#include "reprise/distributed/sharded/evaluated_weights.h"

#include <gtest/gtest.h>

#include <sstream>

#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/gather_averages.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/tests/distributed/sharded/gpt_run.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::checksum;
using testing::expect_error;
using testing::gpt;
using testing::GptRun;
using testing::Ranks;
using testing::run_ranks;
using testing::Way;

const Way plain{"none"};

// What the model says of some tokens.
std::string answer(nn::Gpt& model, int64_t number) {
  const nn::EvalScope scope(model);
  return checksum(model(testing::random_tokens({2, 16}, 60, uint64_t(number))));
}

// Two steps, with averages of them where there are any.
struct TrainedRun : GptRun {
  std::optional<optim::Ema> ema;
  TrainedRun(ProcessGroup& group, int stage, bool averages, bool follows = true)
      : GptRun(group, plain, stage) {
    if (averages) {
      const WholeWeights whole(parallel);
      ema.emplace(model, 0.5);
    }
    if (ema && follows) ema->follow_masters(optimizer);
    for (int at = 0; at < 2; ++at) {
      step(at);
      if (ema && follows) ema->update();
    }
  }
  const optim::Ema* averages() const { return ema ? &*ema : nullptr; }
};

std::vector<std::string> answers_of_one(bool averages, int64_t count) {
  const auto alone = ProcessGroup::alone();
  TrainedRun run(*alone, 0, averages);
  std::optional<optim::Ema::Scope> scope;
  if (averages) scope.emplace(*run.ema);
  std::vector<std::string> answers;
  for (int64_t i = 0; i < count; ++i) answers.push_back(answer(run.model, i));
  return answers;
}

// Rank r runs the model r times, then 2 - r times; a step after that is that of one process too.
TEST(EvaluatedWeights, RanksRunWhatTheyLike) {
  for (const bool averages : {false, true}) {
    const std::vector<std::string> want = answers_of_one(averages, 12);
    const std::string weights = [&] {
      const auto alone = ProcessGroup::alone();
      TrainedRun run(*alone, 0, averages);
      run.step(2);
      return run.weights();
    }();
    for (const int stage : {2, 3})
      testing::expect_ranks_well(Ranks::threads, 3, [&](ProcessGroup& group) -> std::string {
        TrainedRun run(group, stage, averages);
        {
          const EvaluatedWeights evaluated(run.parallel, run.averages());
          for (const int64_t times : {int64_t(group.rank()), int64_t(2 - group.rank())}) {
            for (int64_t i = 0; i < times; ++i) {
              const int64_t number = 4 * group.rank() + i;
              EXPECT_EQ(answer(run.model, number), want[size_t(number)]) << "rank " << group.rank();
            }
            gather_for_others(run.parallel);
            group.barrier();
          }
        }
        run.step(2);
        return run.weights() == weights ? "" : "a look has changed what follows";
      });
  }
}

// As rank 0 alone samples, and as it alone runs some blocks.
TEST(EvaluatedWeights, OneRankMayRunAlone) {
  const std::vector<std::string> want = answers_of_one(true, 4);
  for (const Ranks kind : testing::kinds_of_ranks())
    testing::expect_ranks_well(kind, 2, [&](ProcessGroup& group) -> std::string {
      TrainedRun run(group, 3, true);
      const EvaluatedWeights evaluated(run.parallel, run.averages());
      if (group.rank() == 0) {
        const nn::EvalScope scope(run.model);
        run.model.at<nn::TransformerBlock>("h.2")(Tensor::zeros({1, 4, gpt.width}));
        run.model.at<nn::TransformerBlock>("h.1")(Tensor::zeros({1, 4, gpt.width}));
        for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(answer(run.model, i), want[size_t(i)]);
      }
      gather_for_others(run.parallel);
      EXPECT_TRUE(run.model.at<nn::Linear>("h.1.attn.qkv").weight.is_hollow());
      return "";
    });
}

// Averages that are whole yet are gathered too; and what is held whole within is what an evaluation sees.
TEST(EvaluatedWeights, WholeAveragesAndWholeWeights) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    TrainedRun run(group, 3, true, /*follows=*/false);
    const std::string initial = [&] {
      const auto alone = ProcessGroup::alone();
      GptRun one(*alone, plain, 0);
      return answer(one.model, 0);
    }();
    const Tensor& weight = run.model.at<nn::Linear>("h.1.attn.qkv").weight;
    {
      const EvaluatedWeights evaluated(run.parallel, run.averages());
      EXPECT_EQ(answer(run.model, 0), initial);
      gather_for_others(run.parallel);
      const WholeWeights whole(run.parallel);
      EXPECT_EQ(checksum(weight), checksum(run.ema->average_of(weight)));
      if (group.rank() == 1) { EXPECT_EQ(answer(run.model, 0), initial); }
      gather_for_others(run.parallel);
    }
    EXPECT_TRUE(weight.is_hollow());
    expect_error([&] { const optim::Ema::Scope look(*run.ema); }, {"h.0", "is hollow", "EvaluatedWeights"});
    expect_error([&] { const optim::Ema::Scope look(*run.ema, whole_averages(run.parallel, *run.ema)); },
                 {"whole_averages", "is hollow", "WholeWeights"});
    const WholeWeights whole(run.parallel);
    expect_error([&] { const EvaluatedWeights evaluated(run.parallel); }, {"EvaluatedWeights", "held whole"});
    return "";
  });
}

// The block that one rank was in is whole there, with averages in it, when the look is over.
TEST(EvaluatedWeights, WhatIsThrownWithinABlockLeavesWeightsAsTheyWere) {
  const std::string weights = [&] {
    const auto alone = ProcessGroup::alone();
    TrainedRun run(*alone, 0, true);
    run.step(2);
    return run.weights();
  }();
  testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) -> std::string {
    TrainedRun run(group, 3, true);
    {
      const EvaluatedWeights evaluated(run.parallel, run.averages());
      expect_error([&] { const EvaluatedWeights inner(run.parallel); },
                   {"EvaluatedWeights: there is one already"});
      if (group.rank() == 0) {
        const nn::EvalScope scope(run.model);
        EXPECT_THROW(run.model.at<nn::TransformerBlock>("h.2")(Tensor::zeros({1, 4, gpt.width + 1})), Error);
      }
      gather_for_others(run.parallel);
    }
    run.step(2);
    return run.weights() == weights ? "" : "a look that failed has changed what follows";
  });
}

// Where a rank fails, the others hear of it while they gather for it.
TEST(EvaluatedWeights, AnErrorOnOneRankIsToldToAll) {
  for (const Ranks kind : testing::kinds_of_ranks()) {
    const auto told = run_ranks(kind, 2, [](ProcessGroup& group) -> std::string {
      TrainedRun run(group, 3, false);
      const EvaluatedWeights evaluated(run.parallel);
      if (group.rank() == 0) {
        answer(run.model, 0);
        group.abort("the sample cannot be written");
        fail("the sample cannot be written");
      }
      gather_for_others(run.parallel);
      return "went on";
    });
    EXPECT_EQ(told[0], "Error: the sample cannot be written");
    EXPECT_TRUE(told[1].starts_with("left: rank 0 aborted: the sample cannot be written")) << told[1];
  }
}

// Elements of weights, and bytes of buffers, beyond what a rank keeps, at the peak of a look.
std::string peaks_of(ProcessGroup& group) {
  TrainedRun run(group, 3, true);
  Allocator& memory = allocator(Device::cpu());
  const auto weights = size_t(MemoryCategory::parameters), buffers = size_t(MemoryCategory::workspace);
  const EvaluatedWeights evaluated(run.parallel, run.averages());
  const MemoryStats before = memory.stats();
  memory.reset_peaks();
  for (int64_t i = 0; i < 2 * group.rank(); ++i) answer(run.model, i);
  gather_for_others(run.parallel);
  const MemoryStats stats = memory.stats();
  const size_t buffer =
      gathering_bytes({run.parallel.leaves(), run.parallel.buckets()[0], run.parallel.shards(), 0});
  return detail::join(int64_t(stats.peak_by_category[weights]) - int64_t(before.by_category[weights]), ' ',
                      int64_t(stats.peak_by_category[buffers]) - int64_t(before.by_category[buffers]), ' ',
                      buffer);
}

// A rank that runs nothing has the buffers of the block and of the next one; one that runs has a block of weights too.
TEST(EvaluatedWeights, AreAPartAndOneBlock) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  const int64_t block = 4 * (12 * gpt.width * gpt.width + 13 * gpt.width);
  const auto told = run_ranks(Ranks::gloo, 2, peaks_of);
  for (size_t rank = 0; rank < 2; ++rank) {
    std::istringstream numbers(told[rank]);
    int64_t weights = -1, buffers = -1, buffer = 0;
    numbers >> weights >> buffers >> buffer;
    EXPECT_EQ(weights, rank == 0 ? 0 : block) << told[rank];
    EXPECT_GE(buffers, buffer) << told[rank];
    EXPECT_LE(buffers, 2 * buffer + 65536) << told[rank];
  }
}

}  // namespace
}  // namespace reprise::distributed
