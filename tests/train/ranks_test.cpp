// Training on ranks: weights, moments, losses, norms and evaluations have the bits of one process, whatever is drawn in forward.
// labels: concurrency
#include <gtest/gtest.h>

#include <thread>

#include "reprise/autograd/grad_mode.h"
#include "reprise/autograd/ops.h"
#include "reprise/distributed/sharded/sharded_adamw.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/distributed/threads/thread_groups.h"
#include "reprise/io/run_log.h"
#include "reprise/nn/eval_scope.h"
#include "reprise/nn/models/gpt.h"
#include "reprise/tests/io/temp_folder.h"
#include "reprise/train/precision.h"
#include "reprise/train/ranks/dealt_batches.h"
#include "reprise/train/trainer.h"

namespace reprise::train {
namespace {

using distributed::ProcessGroup;
using testing::TempFolder;

constexpr int64_t rows = 2, context = 8, vocabulary = 11, micro_batches = 4;
constexpr uint64_t seed = 7;

nn::GptOptions tiny(bool recompute) {
  nn::GptOptions options{
      .vocab_size = vocabulary, .context = context, .layers = 2, .heads = 2, .width = 16, .dropout = 0.2};
  if (recompute) options.recompute.kind = RecomputeStrategy::Kind::full;
  return options;
}

Tensor tokens_of(int64_t step, int64_t g, int64_t shift) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < rows * context; ++i)
    ids.push_back(philox_block(3, uint64_t(step), uint64_t(g * rows * context + i + shift))[0] % vocabulary);
  return Tensor::from(ids, {rows, context});
}

Tensor loss_of(nn::Gpt& model, int64_t step, int64_t g) {
  return cross_entropy(model(tokens_of(step, g, 0)), tokens_of(step, g, 1));
}

// Over held-out batches, fewer than four ranks: three of unlike sizes, while training goes on one.
Validation held_out(distributed::DataParallel& parallel, nn::Gpt& model, bool whole) {
  const nn::EvalScope scope(model);
  const std::vector<double> sums = sums_of_batches(parallel, whole ? 3 : 1, 2, [&](int64_t batch) {
    const Tensor tokens = tokens_of(-1, batch, 0).slice(0, 0, 1 + batch % rows);
    const Tensor targets = tokens_of(-1, batch, 1).slice(0, 0, 1 + batch % rows);
    const auto count = double(targets.numel());
    return std::vector<double>{cross_entropy(model(tokens), targets).item() * count, count};
  });
  return sums[0] / sums[1];
}

// What a run leaves: the bits of all weights, as rank 0 has them, and what is recorded of each step.
struct Outcome {
  std::vector<double> numbers;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

std::vector<double> weights_of(const nn::Module& model) {
  std::vector<double> all;
  for (const auto& [name, x] : model.named_parameters())
    for (double value : x.detach().to(DType::f64).to_vector<double>()) all.push_back(value);
  return all;
}

struct Case {
  Precision precision = Precision::f32;
  bool recompute = false;
  int64_t steps = 5;
  int stage = 0;  // of ZeRO
};

std::vector<nn::Layer*> blocks_of(nn::Gpt& model, int stage) {
  std::vector<nn::Layer*> blocks;
  for (int64_t i = 0; stage == 3 && i < model.h.size(); ++i)
    blocks.push_back(&model.h.at<nn::TransformerBlock>(std::to_string(i)));
  return blocks;
}

// One rank.
std::vector<double> train_on(ProcessGroup& group, const Case& c, const std::string& folder) {
  manual_seed(seed);
  nn::Gpt model(tiny(c.recompute));
  const PrecisionScope scope(c.precision, {});
  distributed::DataParallel parallel(model, group);
  distributed::ShardedAdamW optimizer(parallel, {{.parameters = model.parameters(), .weight_decay = 0.01}},
                                      {.stage = c.stage, .blocks = blocks_of(model, c.stage)});
  Task task{.model = model,
            .optimizer = optimizer,
            .units_per_step = 1,
            .loss = [&](int64_t step, int64_t g) { return loss_of(model, step, g); },
            .validation_loss = [&](bool whole) { return held_out(parallel, model, whole); }};
  const TrainerOptions options{.run_folder = folder,
                               .schedule = {.lr = 1e-2, .steps = c.steps, .decay = optim::Decay::constant},
                               .accumulate = micro_batches,
                               .seed = seed,
                               .loss_scale = is_f16(c.precision) ? 1024.0 : 0.0,
                               .eval_every = 2};
  const TrainingResult result = train(task, options, parallel);
  const distributed::WholeWeights whole(parallel);
  std::vector<double> numbers = weights_of(model);
  numbers.push_back(result.validation_loss);
  return numbers;
}

Outcome run(int ranks, const Case& c) {
  TempFolder folder;
  auto groups = distributed::make_thread_groups(ranks);
  std::vector<std::vector<double>> weights;
  weights.resize(size_t(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      weights[size_t(rank)] = train_on(*groups[size_t(rank)], c, rank == 0 ? folder.path() : "nowhere");
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& of_rank : weights) EXPECT_EQ(of_rank, weights[0]);
  Outcome outcome{weights[0]};
  for (const io::RunRecord& record : io::read_run_log(folder.path() + "/metrics.jsonl"))
    for (const auto& [name, value] : record.metrics)
      if (name == "loss" || name == "grad_norm" || name == "val_loss") outcome.numbers.push_back(value);
  return outcome;
}

TEST(TrainOnRanks, HasTheBitsOfOneProcess) {
  for (Precision precision : {Precision::f32, Precision::bf16, Precision::f16})
    for (bool recompute : {false, true}) {
      const Case c{precision, recompute};
      const Outcome one = run(1, c);
      EXPECT_GT(one.numbers.size(), 1000u);
      EXPECT_TRUE(run(2, c) == one) << int(precision) << recompute;
      EXPECT_TRUE(run(4, c) == one) << int(precision) << recompute;
      for (int stage : {1, 2, 3})
        EXPECT_TRUE(run(2, {precision, recompute, c.steps, stage}) == one)
            << int(precision) << recompute << " stage " << stage;
    }
}

// By hand: four gradients, each with generators that are functions of (seed, step, g), and their tree.
TEST(TrainOnRanks, AddsTheGradientsOfMicroBatchesInATree) {
  manual_seed(seed);
  nn::Gpt model(tiny(false));
  optim::AdamW optimizer(model.parameters(), optim::AdamWOptions{.lr = 1e-2});
  std::vector<TensorList> gradients(micro_batches);
  for (int64_t g = 0; g < micro_batches; ++g) {
    const auto words = philox_block(seed ^ 0x7374657073, 0, uint64_t(g));
    manual_seed(uint64_t(words[1]) << 32 | words[0]);
    (loss_of(model, 0, g) * 0.25).backward();
    for (const Tensor& x : model.parameters()) gradients[size_t(g)].push_back(x.grad().clone());
    optimizer.zero_grad();
  }
  NoGrad guard;
  const TensorList parameters = model.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor leaf = parameters[i];
    leaf.set_grad((gradients[0][i] + gradients[1][i]) + (gradients[2][i] + gradients[3][i]));
  }
  const double norm = optim::grad_norm(parameters);
  optimizer.step(optim::clip_scale(norm, 1.0));
  std::vector<double> want = weights_of(model);
  const Outcome got = run(1, {.steps = 1});
  ASSERT_EQ(got.numbers.size(), want.size() + 4);  // and the evaluation, twice
  EXPECT_TRUE(std::equal(want.begin(), want.end(), got.numbers.begin()));
  EXPECT_EQ(got.numbers[want.size() + 2], norm);
}

}  // namespace
}  // namespace reprise::train
