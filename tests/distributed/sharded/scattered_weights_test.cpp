// ZeRO's stage 3: the bits of one process for each way of recomputing; what a rank holds; what reading a weight outside of its
// block gets.
// labels: slow, concurrency
// not in asan: Ways/ScatteredGpt.*/selective:Ways/ScatteredGpt.*/every2*:Ways/ScatteredGpt.*/segments*:Ways/ScatteredGpt.*/offload*:Ways/ScatteredGpt.*/bf16:Ways/ScatteredGpt.*/bf16_full
// not in tsan: Ways/ScatteredGpt.*/selective:Ways/ScatteredGpt.*/every2*:Ways/ScatteredGpt.*/segments*:Ways/ScatteredGpt.*/offload*:Ways/ScatteredGpt.*/bf16:Ways/ScatteredGpt.*/bf16_full:Ways/ScatteredGpt.*/full:Ways/ScatteredGpt.*/bf16_full_reentrant:ScatteredWeights.AreGatheredTwiceAMicroBatch
// slow in tsan
#include "reprise/distributed/data_parallel/scattered_weights.h"

#include <gtest/gtest.h>

#include <sstream>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/tests/distributed/sharded/gpt_run.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::gpt;
using testing::GptRun;
using testing::Ranks;
using testing::run_ranks;
using testing::Way;

std::string train(ProcessGroup& group, const Way& way, int stage) {
  GptRun run(group, way, stage);
  for (int step = 0; step < 3; ++step) run.step(step);
  return run.weights();
}

class ScatteredGpt : public ::testing::TestWithParam<Way> {};

TEST_P(ScatteredGpt, HasTheBitsOfOneProcess) {
  const std::string want = train(*ProcessGroup::alone(), Way{"one", "none", {}, GetParam().compute}, 0);
  for (int ranks : {1, 2, 3}) {
    const auto got =
        run_ranks(Ranks::threads, ranks, [&](ProcessGroup& group) { return train(group, GetParam(), 3); });
    for (const std::string& of_rank : got) EXPECT_EQ(of_rank, want) << ranks << " ranks";
  }
}

constexpr auto reentrant = recompute::CheckpointMode::reentrant;
INSTANTIATE_TEST_SUITE_P(
    Ways, ScatteredGpt,
    ::testing::Values(Way{"none"}, Way{"full", "full"}, Way{"selective", "selective"},
                      Way{"every2", "every:2"}, Way{"segments", "segments:2"}, Way{"offload", "offload"},
                      Way{"full_reentrant", "full", reentrant}, Way{"every2_reentrant", "every:2", reentrant},
                      Way{"segments_reentrant", "segments:2", reentrant},
                      Way{"offload_reentrant", "offload", reentrant}, Way{"bf16", "none", {}, DType::bf16},
                      Way{"bf16_full", "full", {}, DType::bf16},
                      Way{"bf16_full_reentrant", "full", reentrant, DType::bf16}),
    [](const auto& of) { return of.param.name; });

TEST(ScatteredWeights, OverGloo) {
  const Way way{"full", "full"};
  const std::string want = train(*ProcessGroup::alone(), way, 0);
  for (Ranks kind : testing::kinds_of_ranks())
    EXPECT_EQ(run_ranks(kind, 2, [&](ProcessGroup& group) { return train(group, way, 3); })[1], want);
}

// Bytes that a rank sends in a step of `each` micro-batches per rank, once it has learned what follows what.
int64_t bytes_of_step(ProcessGroup& group, const Way& way, int64_t each) {
  GptRun run(group, way, 3);
  int64_t before = 0;
  for (int step = 0; step < 2; ++step) {
    before = group.communication().bytes;
    run.step(step, each * group.size());
  }
  return group.communication().bytes - before;
}

// A micro-batch gathers each block for its forward and for its backward, but the last one, for both at once. What is recomputed
// is recomputed under the gather of its backward.
TEST(ScatteredWeights, AreGatheredTwiceAMicroBatch) {
  for (const Way& way : {Way{"none"}, Way{"full", "full"}, Way{"full reentrant", "full", reentrant}})
    testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) -> std::string {
      const int64_t more = bytes_of_step(group, way, 2) - bytes_of_step(group, way, 1);
      GptRun run(group, way, 3);
      const size_t block =
          gathering_bytes({run.parallel.leaves(), run.parallel.buckets()[0], run.parallel.shards(), 0});
      EXPECT_EQ(more, int64_t(block / 2) * (2 * gpt.layers - 1)) << way.name;
      return "";
    });
}

const int64_t norms_numel = gpt.layers * 4 * gpt.width;  // which a running replay may still have views of
const int64_t block_numel = 12 * gpt.width * gpt.width + 13 * gpt.width;

// Of the weights of a process, at the end of a step and at its peak: elements beyond those that it keeps; and those of its part
// of the blocks.
std::string numel_of_weights(ProcessGroup& group, const Way& way) {
  Allocator& memory = allocator(Device::cpu());
  GptRun run(group, way, 3);
  run.step(0);
  memory.reset_peaks();
  run.step(1);
  const MemoryStats stats = memory.stats();
  int64_t part = 0, whole = 0;
  const ScatteredWeights& weights = *run.parallel.scattered_weights();
  for (size_t i = 0; i < run.parallel.leaves().size(); ++i)
    (weights.has(i) ? part : whole) += (weights.has(i) ? weights.own(i) : run.parallel.leaves()[i]).numel();
  auto beyond = [&](size_t bytes) { return int64_t(bytes) / 4 - part - whole; };
  const auto of = size_t(MemoryCategory::parameters);
  return detail::join(beyond(stats.by_category[of]), ' ', beyond(stats.peak_by_category[of]), ' ', part);
}

// The next block is on its way meanwhile, in a buffer of the workspace.
TEST(ScatteredWeights, AreAPartAndOneBlock) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  for (const Way& way : {Way{"none"}, Way{"full", "full"}, Way{"full reentrant", "full", reentrant}}) {
    const auto told =
        run_ranks(Ranks::gloo, 2, [&](ProcessGroup& group) { return numel_of_weights(group, way); });
    int64_t parts = 0;
    for (const std::string& line : told) {
      std::istringstream numbers(line);
      int64_t at_end = -1, at_peak = -1, part = 0;
      numbers >> at_end >> at_peak >> part;
      EXPECT_EQ(at_end, 0) << way.name << ": " << line;
      EXPECT_GE(at_peak, block_numel) << way.name << ": " << line;
      EXPECT_LE(at_peak, block_numel + norms_numel) << way.name << ": " << line;
      parts += part;
    }
    EXPECT_EQ(parts, gpt.layers * block_numel);
  }
}

// Ranks whose blocks differ are told, and do not wait for each other.
TEST(ScatteredWeights, OtherBlocksOnAnotherRankAreADesync) {
  const auto told = run_ranks(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    const Way way{"none"};
    GptRun run(group, way, 3);
    Tensor x = Tensor::zeros({1, 4, gpt.width});
    x = run.model.at<nn::TransformerBlock>("h.0")(x);
    x = run.model.at<nn::TransformerBlock>(group.rank() == 0 ? "h.1" : "h.3")(x);
    return "went on";
  });
  for (const std::string& of_rank : told) {
    EXPECT_NE(of_rank.find("desync"), std::string::npos) << of_rank;
    EXPECT_NE(of_rank.find("h.1"), std::string::npos) << of_rank;
    EXPECT_NE(of_rank.find("h.3"), std::string::npos) << of_rank;
    EXPECT_NE(of_rank.find("which all ranks run, or .blocks leaves out"), std::string::npos) << of_rank;
  }
}

// A loop of one's own, whose passes are added in a NoSync; and a pass without gradients between.
TEST(ScatteredWeights, InALoopOfOnesOwn) {
  auto trained = [](ProcessGroup& group, int stage) {
    const Way way{"full", "full"};
    GptRun run(group, way, stage);
    for (int step = 0; step < 2; ++step) {
      for (int pass = 0; pass < 2; ++pass) {
        std::optional<NoSync> wait;
        if (pass == 0) wait.emplace(run.parallel);
        run.parallel.backward(run.loss(step, 2 * group.rank() + pass) * 0.5);
        NoGrad guard;
        run.loss(step, pass);
      }
      run.optimizer.step();
      run.optimizer.zero_grad();
    }
    return run.weights();
  };
  const std::string want =
      run_ranks(Ranks::threads, 2, [&](ProcessGroup& group) { return trained(group, 0); })[0];
  for (const std::string& got :
       run_ranks(Ranks::threads, 2, [&](ProcessGroup& group) { return trained(group, 3); }))
    EXPECT_EQ(got, want);
}

TEST(ScatteredWeights, CannotBeReadOutsideOfTheirBlocks) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    const Way way{"none"};
    GptRun run(group, way, 3);
    const Tensor& weight = run.model.at<nn::Linear>("h.1.attn.qkv").weight;
    EXPECT_TRUE(weight.is_hollow());
    EXPECT_EQ(weight.shape(), Shape({240, 80}));
    expect_error([&] { weight.to_vector<float>(); }, {"hollow", "(240, 80)", "ranks share"});
    expect_error([&] { (weight * 2.0).sum(); }, "hollow");
    {
      const WholeWeights whole(run.parallel);
      EXPECT_EQ(weight.to_vector<float>().size(), 240u * 80u);
      expect_error([&] { run.optimizer.step(); }, {"step", "WholeWeights"});
    }
    EXPECT_TRUE(weight.is_hollow());
    expect_error([&] { run.parallel.scatter_weights(); }, "they are scattered already");
    return "";
  });
}

// Weights that are kept whole are the model's own when nobody shares them any more.
TEST(ScatteredWeights, AreTheModelsWhenTrainingIsOver) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    manual_seed(5);
    nn::Gpt model(gpt);
    const Tensor& weight = model.at<nn::Linear>("h.1.attn.qkv").weight;
    const std::vector<float> want = weight.to_vector<float>();
    {
      DataParallel parallel(model, group);
      const ShardedAdamW optimizer(parallel, optim::decay_matrices(model, 1e-2, 0.1), {.stage = 3});
      EXPECT_TRUE(weight.is_hollow());
      WholeWeights(parallel).keep();
    }
    EXPECT_EQ(weight.to_vector<float>(), want);
    EXPECT_GE(weight.storage()->bytes(), sizeof(float) * want.size());
    return "";
  });
}

// What all ranks write to whole weights stays; a view of a weight holds its memory, and has its values while it is whole.
TEST(ScatteredWeights, ChangesStayAndViewsHoldMemory) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    const Way way{"none"};
    GptRun run(group, way, 3);
    const Tensor& weight = run.model.at<nn::Linear>("h.1.attn.qkv").weight;
    Tensor view;
    {
      const WholeWeights whole(run.parallel);
      NoGrad guard;
      weight.fill_(0.25);
      view = weight.detach().transpose(0, 1);
    }
    EXPECT_TRUE(weight.is_hollow());
    EXPECT_EQ(view.to_vector<float>(), std::vector<float>(240 * 80, 0.25f));
    const WholeWeights whole(run.parallel);
    EXPECT_EQ(weight.to_vector<float>(), std::vector<float>(240 * 80, 0.25f));
    NoGrad guard;
    weight.fill_(0.5);
    EXPECT_EQ(view.to_vector<float>()[7], 0.5f);
    return "";
  });
}

}  // namespace
}  // namespace reprise::distributed
