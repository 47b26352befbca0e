// Running statistics on several ranks have the bits of a process that runs all micro-batches, with no DataParallel.
// labels: concurrency
#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/ops/norm/batch_statistics.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/layers.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;

constexpr int steps = 2;
constexpr int64_t width = 3, micro_batches = 12;

// Norms by a share of each batch, by the mean of all, used twice, in odd micro-batches alone, never, and in checkpoints.
struct NormNet : nn::Module {
  nn::BatchNorm1d twice{width}, averaged{width, {.momentum = std::nullopt}}, odd{width}, never{width},
      inside{width};

  NormNet() {
    register_module("twice", twice);
    register_module("averaged", averaged);
    register_module("odd", odd);
    register_module("never", never);
    register_module("inside", inside);
  }

  Tensor loss(int step, int64_t g) {
    manual_seed(uint64_t(100 * step + g));
    Tensor x = twice(averaged(twice(randn({4 + g % 2, width}))));
    if (g % 2) x = odd(x);
    const auto mode =
        g % 4 < 2 ? recompute::CheckpointMode::non_reentrant : recompute::CheckpointMode::reentrant;
    x = recompute::checkpoint([this](const Tensor& y) { return inside(y); }, x, {.mode = mode});
    return (x * x).mean();
  }
};

std::string bytes_of_buffers(const nn::Module& net) {
  std::string all;
  for (const auto& [name, buffer] : net.named_buffers()) {
    const std::vector<unsigned char> bytes = testing::bytes_of(buffer);
    all.append(bytes.begin(), bytes.end());
  }
  return all;
}

std::string of_one_process() {
  NormNet net;
  for (int step = 0; step < steps; ++step)
    for (int64_t g = 0; g < micro_batches; ++g) net.loss(step, g).backward();
  return bytes_of_buffers(net);
}

std::string of_a_rank(ProcessGroup& group) {
  NormNet net;
  DataParallel parallel(net, group);
  for (int step = 0; step < steps; ++step) {
    net.zero_grad();
    for (int64_t g : parallel.share(micro_batches)) parallel.backward(net.loss(step, g), g);
  }
  return bytes_of_buffers(net);
}

TEST(StatisticsOverRanks, HaveTheBitsOfOneProcess) {
  const std::string want = of_one_process();
  EXPECT_NE(want, bytes_of_buffers(NormNet()));
  for (Ranks kind : testing::kinds_of_ranks())
    for (int ranks : {1, 2, 3, 4, 6})
      for (const std::string& one : testing::run_ranks(kind, ranks, of_a_rank))
        EXPECT_TRUE(one == want) << name_of(kind) << ' ' << ranks << ' '
                                 << (one.size() == want.size() ? "" : one);
}

// What `change` does in the forward pass of one of two ranks.
void expect_failure(const std::function<void(NormNet& net)>& change, const std::string& message) {
  const auto got = testing::run_ranks(Ranks::threads, 2, [&](ProcessGroup& group) -> std::string {
    NormNet net;
    DataParallel parallel(net, group);
    const int64_t g = parallel.share(2).at(0);
    try {
      Tensor loss = net.loss(0, g);
      if (g == 1) change(net);
      parallel.backward(loss, g);
    } catch (const DistributedError&) { throw; } catch (const Error& error) {
      group.abort(error.what());
      return error.what();
    }
    return "";
  });
  for (const std::string& one : got) EXPECT_NE(one.find(message), std::string::npos) << one;
}

TEST(StatisticsOverRanks, BuffersThatChangeInAnotherWayAreNamed) {
  expect_failure([](NormNet& net) { net.odd.running_var.fill_(2); },
                 "backward: forward of micro-batch 1 has changed odd.running_var in place");
}

TEST(StatisticsOverRanks, OfNoBufferAreRefused) {
  expect_failure(
      [](NormNet& net) {
        batch_norm(randn({4, width}), {}, {}, zeros({width}), ones({width}), {.training = true});
        net.odd(randn({4, width}));
      },
      "batch_norm updates running statistics that are no buffers of the model");
}

TEST(StatisticsCollector, OnlyTheNewestThatIsLeftTakes) {
  nn::BatchNorm1d norm(width);
  const Tensor x = randn({4, width});
  auto untouched = [&] { return norm.running_var.to_vector<float>() == std::vector<float>(width, 1); };
  {
    autograd::StatisticsCollector outer;
    std::optional<autograd::StatisticsCollector> inner(std::in_place);
    norm(x);
    EXPECT_EQ(inner->take().size(), 1u);
    EXPECT_TRUE(inner->take().empty());
    inner.reset();
    norm(x), norm(x);
    EXPECT_EQ(outer.take().size(), 2u);
    EXPECT_TRUE(untouched());
  }
  norm(x);
  EXPECT_FALSE(untouched());
}

}  // namespace
}  // namespace reprise::distributed
