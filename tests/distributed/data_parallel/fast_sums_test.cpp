// SumOrder::fast: within a rank one gradient after another, between ranks a ring, or on GPUs NCCL's own sum;
// bits depend on the number of ranks. Of ZeRO's stages 2 and 3 each rank has its parts of such sums.
// labels: concurrency
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "reprise/autograd/grad_mode.h"
#include "reprise/distributed/data_parallel/data_parallel.h"
#include "reprise/simt/emulator/sanitizer.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/distributed/sharded/wide_net.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;
using testing::same_bits;
using testing::WideNet;

constexpr BucketOptions kSmall{.bytes = 300000, .first_bytes = 1000};

std::unique_ptr<WideNet> made(Device device = Device::cpu()) {
  manual_seed(3);
  auto net = std::make_unique<WideNet>();
  net->to(device);
  return net;
}

// The gradients of micro-batches 0 ... G-1 of step 0, each alone and divided by G, by parameter.
std::vector<TensorList> alone(int64_t micro_batches, Device device = Device::cpu()) {
  auto net = made(device);
  std::vector<TensorList> gradients(net->parameters().size());
  for (int64_t g = 0; g < micro_batches; ++g) {
    (net->loss(0, g) * (1.0 / double(micro_batches))).backward();
    for (size_t i = 0; i < gradients.size(); ++i) gradients[i].push_back(net->parameters()[i].grad());
    net->zero_grad();
  }
  return gradients;
}

// Absent ones count as zeros beside others.
TEST(FastSums, OfOneProcessAreTheSequentialSum) {
  for (int64_t micro_batches : {1, 2, 4, 7}) {
    auto group = ProcessGroup::alone();
    auto net = made();
    DataParallel parallel(*net, *group, kSmall);
    parallel.set_sum_order(SumOrder::fast);
    for (int64_t g : parallel.share(micro_batches)) parallel.backward(net->loss(0, g), g);
    const std::vector<TensorList> gradients = alone(micro_batches);
    for (size_t i = 0; i < gradients.size(); ++i) {
      Tensor want;
      for (const Tensor& x : gradients[i])
        if (x.defined()) want = want.defined() ? want + x : x;
      EXPECT_TRUE(same_bits(net->parameters()[i].grad(), want)) << i << " of " << micro_batches;
    }
  }
}

// What is wrong with elements of the gradient of a parameter. G - 1 additions in f32, in any order, are off by
// (G - 1) u / (1 - (G - 1) u) of the sum of magnitudes at most (Higham 2002, 4.4); u = 2^-24. The sums here are in f64, whose error
// is nothing beside that.
std::string beyond_bound(const Tensor& grad, const TensorList& gradients, const optim::ElementRange& range) {
  const double u = testing::unit_roundoff(DType::f32) * double(gradients.size() - 1), bound = u / (1 - u);
  std::vector<double> want(size_t(range.count()), 0.0), magnitudes(want);
  bool is_used = false;
  for (const Tensor& x : gradients) {
    if (!x.defined()) continue;
    is_used = true;
    const std::vector<double> values = x.to(DType::f64).to_vector<double>();
    for (size_t k = 0; k < want.size(); ++k) {
      const double value = values[size_t(range.begin) + k];
      want[k] += value, magnitudes[k] += std::abs(value);
    }
  }
  if (is_used != grad.defined()) return is_used ? "has no gradient" : "has a gradient";
  if (!is_used) return "";
  const std::vector<double> got = grad.to(DType::f64).to_vector<double>();
  if (got.size() != want.size()) return detail::join("has ", got.size(), " elements, want ", want.size());
  for (size_t k = 0; k < got.size(); ++k)
    if (!(std::abs(got[k] - want[k]) <= bound * magnitudes[k] * 1.001))
      return detail::join("at ", range.begin + int64_t(k), ": got ", got[k], ", want ", want[k]);
  return "";
}

constexpr int64_t micro_batches = 12;

std::string check_whole_sums(ProcessGroup& group, const std::vector<TensorList>& gradients) {
  auto net = made(group.device());
  DataParallel parallel(*net, group, kSmall);
  parallel.set_sum_order(SumOrder::fast);
  for (int64_t g : parallel.share(micro_batches)) parallel.backward(net->loss(0, g), g);
  std::string own;
  for (const Tensor& x : net->parameters()) own += testing::checksum(x.grad()) + ' ';
  for (const std::string& other : group.gather_text(own))
    if (other != own) return "ranks have different bits";
  for (size_t i = 0; i < gradients.size(); ++i) {
    const std::string wrong =
        beyond_bound(net->parameters()[i].grad(), gradients[i], {0, net->parameters()[i].numel()});
    if (!wrong.empty()) return detail::join("parameter ", i, ' ', wrong);
  }
  return "";
}

// Stage 2 or 3: each rank's own shards.
std::string check_parts(ProcessGroup& group, const std::vector<TensorList>& gradients, int stage) {
  auto net = made(group.device());
  DataParallel parallel(*net, group, kSmall);
  parallel.set_sum_order(SumOrder::fast);
  stage == 2 ? parallel.scatter_gradients() : parallel.scatter_weights({&net->wide, &net->last});
  for (int64_t g : parallel.share(micro_batches)) parallel.backward(net->loss(0, g), g);
  for (size_t i = 0; i < gradients.size(); ++i) {
    const Shard& own = parallel.shards().of_parameter(i, group.rank());
    const std::string wrong = beyond_bound(parallel.own_gradient(i), gradients[i], own.range);
    if (!wrong.empty()) return detail::join("stage ", stage, ", parameter ", i, ' ', wrong);
  }
  return "";
}

// Calls body with each kind of ranks and the gradients that they are to add.
void for_each_kind(const std::function<void(Ranks, const std::vector<TensorList>&)>& body) {
  for (Ranks kind : testing::kinds_with_devices()) {
    if (kind == Ranks::nccl && simt::sanitizer::thread) continue;  // minutes
    body(kind, alone(micro_batches, kind == Ranks::nccl ? Device::cuda() : Device::cpu()));
  }
}

TEST(FastSums, OfRanksAreWithinTheBoundAndTheSameOnAll) {
  for_each_kind([](Ranks kind, const std::vector<TensorList>& gradients) {
    for (int ranks : {2, 3, 4})
      testing::expect_ranks_well(kind, ranks,
                                 [&](ProcessGroup& group) { return check_whole_sums(group, gradients); });
  });
}

TEST(FastSums, OfPartsAreWithinTheBound) {
  for_each_kind([](Ranks kind, const std::vector<TensorList>& gradients) {
    for (int ranks : {2, 3, 4})
      testing::expect_ranks_well(kind, ranks, [&](ProcessGroup& group) {
        const std::string wrong = check_parts(group, gradients, 2);
        return wrong.empty() ? check_parts(group, gradients, 3) : wrong;
      });
  });
}

// All weights after two steps at a stage, the same on all ranks.
TensorList trained(ProcessGroup& group, const testing::ShardedCase& c, int stage) {
  testing::ShardedRun run(group, c, stage, kSmall);
  run.parallel().set_sum_order(SumOrder::fast);
  std::string lines;
  for (int step = 0; step < 2; ++step) lines += run.step(step, micro_batches);
  for (const std::string& other : group.gather_text(lines)) check(other == lines, "ranks have other weights");
  NoGrad guard;
  const WholeWeights whole(run.parallel());
  TensorList weights;
  for (const Tensor& x : run.net().parameters()) weights.push_back(x.clone());
  return weights;
}

double most_apart(const TensorList& a, const TensorList& b) {
  double most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const std::vector<float> x = a[i].to_vector<float>(), y = b[i].to_vector<float>();
    for (size_t k = 0; k < x.size(); ++k) most = std::max(most, double(std::abs(x[k] - y[k])));
  }
  return most;
}

// Two numbers have one sum, and three another one in each order. With an eps of 1 updates follow gradients smoothly: by 12
// additions in f32 off by 7e-7 of their magnitudes, times a learning rate of 0.03, and rounded to weights below 1.
TEST(FastSums, StagesTrainAlike) {
  const testing::ShardedCase c{.name = "smooth", .adamw = {.eps = 1}};
  constexpr double tolerance = 2e-7;
  for (Ranks kind : testing::kinds_with_devices()) {
    if (kind == Ranks::nccl && simt::sanitizer::thread) continue;  // minutes
    for (int ranks : {2, 3})
      testing::expect_ranks_well(kind, ranks, [&](ProcessGroup& group) -> std::string {
        const TensorList want = trained(group, c, 0), before = made(group.device())->parameters();
        if (most_apart(want, before) < 1000 * tolerance) return "hardly trained";
        for (int stage : {2, 3}) {
          const double apart = most_apart(trained(group, c, stage), want);
          if (apart > (group.size() == 2 ? 0 : tolerance))
            return detail::join("stage ", stage, ": weights are up to ", apart, " off");
        }
        return "";
      });
  }
}

TEST(FastSums, TakeOneSetOfGradients) {
  PartialSums sums(SumOrder::fast);
  const float big = std::ldexp(1.0f, 24);
  for (float value : {big, 1.0f, 1.0f, -big}) sums.push(0, Tensor::from<float>({value}, {1}));
  const TensorList one = sums.take();
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].item(), 0) << "each 1 is lost beside 2^24, and a tree of them gives 1";
}

TEST(FastSums, ChangeBetweenStepsAlone) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    auto net = made();
    DataParallel parallel(*net, group);
    parallel.share(2);
    expect_error([&] { parallel.set_sum_order(SumOrder::fast); }, "the step is not over");
    parallel.backward(net->loss(0, group.rank()), group.rank());
    return "";
  });
}

}  // namespace
}  // namespace reprise::distributed
