// Data-parallel training as distributed data parallel does it, with threads as ranks: a hook marks each
// parameter ready, gradients are averaged over the ranks. With checkpoints every bit stays, no parameter is
// ready twice.
#include <barrier>
#include <map>
#include <thread>

#include "reprise/autograd/meta.h"
#include "reprise/autograd/recompute/planner/plan.h"
#include "reprise/nn/layers.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/nn/transformers/transformer_block.h"
#include "reprise/tests/autograd/recompute/support.h"
#include "reprise/tests/nn/small_models.h"

namespace reprise::nn {
namespace {

using recompute::CheckpointMode;
using testing::same_bits;

constexpr int64_t kVocab = 17, kWidth = 8, kUpdates = 2;

// One block is used twice, one never; the table is tied to the output layer.
struct Net : Module {
  Embedding table;
  TransformerBlock shared, middle, unused;

  explicit Net(Device device)
      : table(kVocab, kWidth, {}, device),
        shared(kWidth, 2, {.dropout = 0.2}, device),
        middle(kWidth, 2, {.drop_path = 0.3}, device),
        unused(kWidth, 2, {}, device) {
    register_module("table", table);
    register_module("shared", shared);
    register_module("middle", middle);
    register_module("unused", unused);
  }

  Tensor loss(const Tensor& tokens, const Tensor& targets, std::optional<CheckpointMode> mode) {
    auto block = [](TransformerBlock& b) { return [&b](const Tensor& x) { return b.forward(x); }; };
    std::vector<recompute::LayerFunction> layers{block(shared), block(middle), block(shared)};
    Tensor x = table.forward(tokens);
    x = mode ? recompute::run_plan(recompute::plan_every(3, 1), layers, x, {.mode = *mode})
             : recompute::run_layers(layers, x);
    return cross_entropy(linear(x, table.weight), targets);
  }
};

class World {
 public:
  explicit World(int ranks) : ranks_(ranks), gradients_(size_t(ranks)), all_(ranks) {}

  // The mean over the ranks, added up in their order, takes each gradient's place.
  void average(int rank, const TensorList& parameters) {
    TensorList& mine = gradients_[size_t(rank)];
    mine.clear();
    for (const Tensor& p : parameters) mine.push_back(p.grad());
    synchronize(parameters[0].device());  // the others read them
    all_.arrive_and_wait();
    TensorList means;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Tensor sum = gradients_[0][i].clone();
      for (size_t other = 1; other < gradients_.size(); ++other) sum.add_(gradients_[other][i]);
      means.push_back(sum * (1.0 / ranks_));
    }
    synchronize(parameters[0].device());
    all_.arrive_and_wait();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(means[i]);
  }

 private:
  int ranks_;
  std::vector<TensorList> gradients_;
  std::barrier<> all_;
};

// The losses and, at the end, the weights of one rank.
TensorList train(World& world, int rank, std::optional<CheckpointMode> mode) {
  Device device = testing::test_device();
  manual_seed(3);
  Net net(device);
  TensorList used;
  std::map<std::string, int> ready;
  for (auto& [name, p] : net.named_parameters()) {
    if (!name.starts_with("unused")) used.push_back(p);
    autograd::register_post_accumulate_hook(p, [&ready, name = name] { ++ready[name]; });
  }
  optim::AdamW optimizer(optim::decay_matrices(net, 1e-2, 0.1));
  TensorList bits;
  manual_seed(uint64_t(100 + rank));
  for (int update = 0; update < kUpdates; ++update) {
    auto batch = [&](int which) {
      return testing::random_tokens({2, 5}, kVocab, uint64_t(100 * update + 10 * rank + which)).to(device);
    };
    Tensor loss = net.loss(batch(0), batch(1), mode);
    ready.clear();
    loss.backward();
    EXPECT_EQ(ready.size(), used.size());
    for (const auto& [name, times] : ready) EXPECT_EQ(times, 1) << name;
    world.average(rank, used);
    optimizer.step();
    optimizer.zero_grad();
    bits.push_back(loss.detach());
  }
  for (const auto& [name, tensor] : net.state_dict()) bits.push_back(tensor.detach());
  return bits;
}

std::vector<TensorList> train_all(int ranks, std::optional<CheckpointMode> mode) {
  World world(ranks);
  std::vector<TensorList> bits(static_cast<size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] { bits[size_t(rank)] = train(world, rank, mode); });
  for (std::thread& thread : threads) thread.join();
  return bits;
}

class DataParallelRecompute : public ::testing::TestWithParam<int> {};

TEST_P(DataParallelRecompute, KeepsEveryBitAndMarksEachParameterReadyOnce) {
  std::vector<TensorList> want = train_all(GetParam(), {});
  for (size_t i = kUpdates; i < want[0].size(); ++i)
    EXPECT_TRUE(same_bits(want[0][i], want[1][i])) << "ranks have the same weights: " << i;
  EXPECT_FALSE(same_bits(want[0][0], want[1][0])) << "ranks have batches of their own";
  for (CheckpointMode mode : testing::kModes) {
    std::vector<TensorList> got = train_all(GetParam(), mode);
    for (size_t rank = 0; rank < want.size(); ++rank)
      for (size_t i = 0; i < want[rank].size(); ++i)
        EXPECT_TRUE(same_bits(got[rank][i], want[rank][i])) << "rank " << rank << ", tensor " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DataParallelRecompute, ::testing::Values(2, 4));

}  // namespace
}  // namespace reprise::nn
