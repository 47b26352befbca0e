// DataParallelAutocast: ranks that train under autocast with a loss scale, in checkpoints of both modes. Where one micro-batch,
// which is one rank's, has an infinite gradient, all ranks leave the update out; and all have the bits of micro-batches run
// alone, scaled by hand and added by the tree's definition.
// labels: slow, concurrency
// not in tsan: Dtypes/DataParallelAutocast.*/f16
// not in asan: Dtypes/DataParallelAutocast.*/f16
// slow in tsan
#include <gtest/gtest.h>

#include <cmath>

#include "reprise/autograd/amp/autocast.h"
#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/nn/optim/adamw.h"
#include "reprise/nn/optim/grad_scaler.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/data_parallel/shared_net.h"
#include "reprise/tests/distributed/data_parallel/tree_sum.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/child.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::Checkpoints;
using testing::checksum;
using testing::Ranks;
using testing::SharedNet;

constexpr int kSteps = 4, kBadStep = 1;
constexpr int64_t kMicroBatches = 4;
constexpr double kScale = 1024;  // a power of two: it rounds nothing

/// How the ranks train, and whose micro-batch is bad.
struct Case {
  DType dtype;
  Checkpoints checkpoints;
  int64_t bad;
};

Tensor loss_of(SharedNet& net, const Case& c, int step, int64_t g) {
  amp::Autocast scope(Device::cpu(), c.dtype);
  return net.loss(step, g, c.checkpoints);
}

// With one gradient of one element that is finite as it is and infinite once it is scaled.
Tensor poisoned(const SharedNet& net, const Tensor& loss) {
  std::vector<float> huge(size_t(net.once.norm1.weight.numel()));
  huge[5] = 3e38f;
  return loss + sum(net.once.norm1.weight * Tensor::from(huge, net.once.norm1.weight.shape()));
}

std::string weights_of(const SharedNet& net) {
  TextStream lines;
  for (const auto& [name, p] : net.named_parameters()) lines << name << ' ' << checksum(p) << '\n';
  return lines.str();
}

std::string state_of(const optim::AdamW& optimizer) {
  TextStream lines;
  for (const auto& [name, x] : optimizer.state_dict()) lines << name << ' ' << checksum(x) << '\n';
  return lines.str();
}

// By hand and in one process: without DataParallel, GradScaler and checkpoints. The step with the bad micro-batch is left
// out, and the scale is halved after it.
std::string expected(const Case& c) {
  manual_seed(3);
  SharedNet net;
  optim::AdamW optimizer(optim::decay_matrices(net, 1e-2, 0.1));
  std::string lines;
  for (int step = 0; step < kSteps; ++step) {
    const double scale = step > kBadStep ? kScale / 2 : kScale;
    if (step != kBadStep) {
      std::map<std::string, TensorList> alone;
      for (int64_t g = 0; g < kMicroBatches; ++g) {
        net.zero_grad();
        const Tensor loss = loss_of(net, {c.dtype, Checkpoints::none, -1}, step, g);
        (loss * (scale / double(kMicroBatches))).backward();
        for (const auto& [name, p] : net.named_parameters()) alone[name].push_back(p.grad());
      }
      net.zero_grad();
      NoGrad no_graph;
      for (const auto& [name, p] : net.named_parameters())
        if (const Tensor whole = testing::tree_sum(alone[name], p.shape()); whole.defined())
          p.set_grad(whole * (1 / scale));
      optimizer.step();
    }
    lines += weights_of(net);
  }
  return lines + state_of(optimizer);
}

// The weights after each step and the state after the last, or what is wrong with the step that is left out.
std::string train(ProcessGroup& group, const Case& c) {
  manual_seed(uint64_t(7 * group.rank() + 3));  // rank 0's weights are taken by all
  SharedNet net;
  DataParallel parallel(net, group, {.bytes = 1500, .first_bytes = 200});
  optim::AdamW optimizer(optim::decay_matrices(net, 1e-2, 0.1));
  optim::GradScaler scaler(group.device(), {.init_scale = kScale});
  std::string lines;
  for (int step = 0; step < kSteps; ++step) {
    const std::string before = weights_of(net) + state_of(optimizer);
    optimizer.zero_grad();
    for (int64_t g : parallel.share(kMicroBatches)) {
      Tensor loss = loss_of(net, c, step, g);
      if (step == kBadStep && g == c.bad) loss = poisoned(net, loss);
      parallel.backward(scaler.scale(loss), g);
    }
    scaler.step(optimizer);
    scaler.update();
    const optim::GradScaler::Stats stats = scaler.read();
    const bool skips = step == kBadStep;
    if ((stats.found != 0) != skips)
      return "step " + std::to_string(step) + " found " + std::to_string(stats.found);
    if (stats.scale != (step < kBadStep ? kScale : kScale / 2)) return "scale " + std::to_string(stats.scale);
    if (stats.skipped != (step < kBadStep ? 0 : 1)) return "skipped " + std::to_string(stats.skipped);
    if (std::isfinite(stats.norm) == skips) return "norm " + std::to_string(stats.norm);
    if (skips && weights_of(net) + state_of(optimizer) != before) return "the bad step has changed a bit";
    lines += weights_of(net);
  }
  return lines + state_of(optimizer);
}

void expect_bits_of_hand(Ranks kind, int ranks, const Case& c, const std::string& want) {
  const std::vector<std::string> got =
      testing::run_ranks(kind, ranks, [&](ProcessGroup& group) { return train(group, c); });
  for (size_t rank = 0; rank < got.size(); ++rank)
    EXPECT_EQ(got[rank], want) << name_of(kind) << ", rank " << rank << " of " << ranks << ", " << c.dtype
                               << ", checkpoints " << int(c.checkpoints) << ", bad micro-batch " << c.bad;
}

class DataParallelAutocast : public ::testing::TestWithParam<DType> {};

TEST_P(DataParallelAutocast, AllRanksSkipWhereOneOverflowsAndHaveTheBitsOfOneProcess) {
  const std::string want = expected({GetParam(), Checkpoints::none, -1});
  for (Checkpoints checkpoints : testing::kCheckpoints)
    for (int ranks : {1, 2, 4})
      for (int64_t bad : {0, 3})
        expect_bits_of_hand(Ranks::threads, ranks, {GetParam(), checkpoints, bad}, want);
}

TEST_P(DataParallelAutocast, ProcessesToo) {
  if (!has_gloo() || !testing::children_have_threads)
    GTEST_SKIP() << "needs Gloo, and children that start threads";
  const std::string want = expected({GetParam(), Checkpoints::none, -1});
  for (Checkpoints checkpoints : {Checkpoints::non_reentrant, Checkpoints::reentrant})
    for (int ranks : {2, 4}) expect_bits_of_hand(Ranks::gloo, ranks, {GetParam(), checkpoints, 1}, want);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, DataParallelAutocast, ::testing::Values(DType::bf16, DType::f16),
                         [](const auto& of) { return of.param == DType::bf16 ? "bf16" : "f16"; });

}  // namespace
}  // namespace reprise::distributed
