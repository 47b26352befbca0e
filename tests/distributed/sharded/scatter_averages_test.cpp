// Averages that live elsewhere, as an I-JEPA's target encoder: at stage 3 each rank has its part of those of blocks.
// labels: concurrency
#include <gtest/gtest.h>

#include <sstream>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/data_parallel/scattered_weights.h"
#include "reprise/distributed/sharded/evaluated_weights.h"
#include "reprise/distributed/sharded/gather_averages.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/shared_tensors.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/models/jepa.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/errors.h"

namespace reprise::distributed {
namespace {

using testing::checksum;
using testing::expect_error;
using testing::Ranks;

const nn::JepaOptions options{.image = 8,
                              .patch = 4,
                              .channels = 1,
                              .width = 64,
                              .layers = 2,
                              .heads = 2,
                              .predictor_width = 16,
                              .predictor_layers = 1,
                              .predictor_heads = 2};

// A model and what trains it and moves its target.
struct JepaRun {
  nn::Jepa model{options};
  DataParallel parallel;
  ShardedAdamW optimizer;
  optim::Ema target;

  JepaRun(ProcessGroup& group, int stage)
      : parallel(seeded(model), group),
        optimizer(parallel, optim::decay_matrices(model, 1e-2, 0.1), {.stage = stage}),
        target(model.encoder.named_parameters(), model.target_encoder.named_parameters(),
               [](int64_t update) { return 0.5 + 0.1 * double(update); }) {
    target.follow_masters(optimizer);
    scatter_averages(parallel, target);
  }
  static nn::Jepa& seeded(nn::Jepa& model) {
    manual_seed(5);
    NoGrad guard;
    for (const Tensor& x : model.parameters()) x.copy_(randn(x.shape()) * 0.1);
    return model;
  }

  Tensor loss(int64_t seed, int64_t rows) {
    manual_seed(uint64_t(seed));
    const Tensor images = randn({rows, 1, 8, 8});
    Tensor context = zeros({rows, 2}, DType::i64), targets = ones({rows, 1, 2}, DType::i64);
    return model.loss(images, model.target_features(images), context, targets);
  }
  void step(int64_t step) {
    for (const int64_t g : parallel.share(6)) parallel.backward(loss(10 * step + g, 2), g);
    optimizer.step();
    optimizer.zero_grad();
    target.update();
    gather_averages(parallel, target);
  }
  std::string weights() {
    const WholeWeights whole(parallel);
    std::string lines;
    for (const auto& [name, x] : model.named_parameters()) lines += name + ' ' + checksum(x) + '\n';
    return lines;
  }
};

std::string trained(ProcessGroup& group, int stage) {
  JepaRun run(group, stage);
  for (int64_t step = 0; step < 3; ++step) run.step(step);
  return run.weights();
}

TEST(ScatterAverages, HaveTheBitsOfOneProcess) {
  const std::string want = trained(*ProcessGroup::alone(), 0);
  for (const int stage : {1, 3})
    for (const int ranks : {2, 3})
      for (const std::string& got : testing::run_ranks(
               Ranks::threads, ranks, [&](ProcessGroup& group) { return trained(group, stage); }))
        EXPECT_EQ(got, want) << ranks << " ranks, stage " << stage;
}

// As a checkpoint and an evaluation see them.
TEST(ScatterAverages, AreReadOneByOneAndEvaluated) {
  const auto alone = ProcessGroup::alone();
  JepaRun one(*alone, 0);
  for (int64_t step = 0; step < 2; ++step) one.step(step);
  NoGrad guard;
  const double loss = one.loss(100, 3).item();
  testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) -> std::string {
    JepaRun run(group, 3);
    for (int64_t step = 0; step < 2; ++step) run.step(step);
    SharedTensors(run.parallel).read_on_rank_0([&](const WholeOf& of) {
      const nn::NamedTensors want = one.model.named_parameters(), got = run.model.named_parameters();
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_EQ(checksum(of(got[i].second)), checksum(want[i].second)) << want[i].first;
    });
    {
      const EvaluatedWeights evaluated(run.parallel);
      const NoGrad no_graph;
      if (group.rank() == 0) { EXPECT_EQ(run.loss(100, 3).item(), loss); }
      gather_for_others(run.parallel);
    }
    expect_error([&] { run.target.keep_part(run.parallel.leaves()[0], Tensor::zeros({3})); },
                 {"3 elements are no part"});
    return "";
  });
}

// What all ranks write to whole averages stays.
TEST(ScatterAverages, KeepWhatIsWrittenToWholeOnes) {
  testing::expect_ranks_well(Ranks::threads, 2, [&](ProcessGroup& group) -> std::string {
    JepaRun run(group, 3);
    const Tensor& weight = run.model.target_encoder.blocks.at<nn::TransformerBlock>("1").mlp.fc1.weight;
    EXPECT_TRUE(weight.is_hollow());
    {
      const WholeWeights whole(run.parallel);
      NoGrad guard;
      weight.fill_(0.25);
    }
    EXPECT_TRUE(weight.is_hollow());
    const WholeWeights whole(run.parallel);
    EXPECT_EQ(weight.to_vector<float>(), std::vector<float>(size_t(weight.numel()), 0.25f));
    return "";
  });
}

// Elements of parameters on a rank between steps and at the peak of one, and those that it is to have.
std::string numel_of_parameters(ProcessGroup& group) {
  Allocator& memory = allocator(Device::cpu());
  const auto of = size_t(MemoryCategory::parameters);
  const auto before = int64_t(memory.stats().by_category[of]);
  JepaRun run(group, 3);
  run.step(0);
  memory.reset_peaks();
  run.step(1);
  const MemoryStats stats = memory.stats();
  int64_t own = 0;
  for (const auto& [name, x] : run.model.named_parameters()) {
    const auto part = run.parallel.scattered_weights()->part_of(x);
    own += part ? part->elements.numel() : x.numel();
  }
  for (const auto& [name, x] : run.model.named_buffers()) own += x.numel();
  const int64_t held = int64_t(stats.by_category[of]) - before,
                peak = int64_t(stats.peak_by_category[of]) - before;
  return detail::join(held - 4 * own, ' ', peak - 4 * own, ' ', own);
}

TEST(ScatterAverages, AreAPartOnEachRank) {
  const auto kinds = testing::kinds_of_ranks();
  if (std::ranges::find(kinds, Ranks::gloo) == kinds.end())
    GTEST_SKIP() << "ranks of one process share an allocator";
  const nn::Jepa whole(options);
  int64_t everywhere = 0;
  const int64_t block = 12 * 64 * 64 + 13 * 64;
  for (const std::string& line : testing::run_ranks(Ranks::gloo, 2, numel_of_parameters)) {
    std::istringstream numbers(line);
    int64_t held = -1, peak = -1, own = 0;
    numbers >> held >> peak >> own;
    EXPECT_EQ(held, 0) << line;
    EXPECT_GE(peak, 4 * block) << line;
    EXPECT_LE(peak, 4 * (block + 4 * 2 * 64)) << line;  // and views of norms, which may live a little longer
    everywhere += own;
  }
  int64_t all = 0;
  for (const nn::NamedTensors& some : {whole.named_parameters(), whole.named_buffers()})
    for (const auto& [name, x] : some) all += x.numel();
  EXPECT_EQ(everywhere, 2 * all - 4 * block);  // encoder and target have two blocks each
}

}  // namespace
}  // namespace reprise::distributed
