// SumOrder::fast: within a rank one gradient after another, between ranks a ring, or on GPUs NCCL's own sum;
// bits depend on the number of ranks.
// labels: concurrency
#include <gtest/gtest.h>

#include <cmath>

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

// G - 1 additions in f32, in any order, are off by (G - 1) u / (1 - (G - 1) u) of the sum of magnitudes at most (Higham 2002,
// 4.4); u = 2^-24. The sums here are in f64, whose error is nothing beside that.
std::string check_bound(const WideNet& net, const std::vector<TensorList>& gradients) {
  for (size_t i = 0; i < gradients.size(); ++i) {
    const double u = testing::unit_roundoff(DType::f32) * double(gradients[i].size() - 1),
                 bound = u / (1 - u);
    const Tensor& grad = net.parameters()[i].grad();
    const int64_t numel = net.parameters()[i].numel();
    std::vector<double> want(size_t(numel), 0.0), magnitudes(size_t(numel), 0.0);
    bool is_used = false;
    for (const Tensor& x : gradients[i]) {
      if (!x.defined()) continue;
      is_used = true;
      const std::vector<double> values = x.to(DType::f64).to_vector<double>();
      for (size_t k = 0; k < values.size(); ++k) want[k] += values[k], magnitudes[k] += std::abs(values[k]);
    }
    if (is_used != grad.defined())
      return detail::join("parameter ", i, is_used ? " has no" : " has a", " gradient");
    if (!is_used) continue;
    const std::vector<double> got = grad.to(DType::f64).to_vector<double>();
    for (size_t k = 0; k < got.size(); ++k)
      if (!(std::abs(got[k] - want[k]) <= bound * magnitudes[k] * 1.001))
        return detail::join("parameter ", i, " at ", k, ": got ", got[k], ", want ", want[k]);
  }
  return "";
}

TEST(FastSums, OfRanksAreWithinTheBoundAndTheSameOnAll) {
  constexpr int64_t micro_batches = 12;
  for (Ranks kind : testing::kinds_with_devices()) {
    if (kind == Ranks::nccl && simt::sanitizer::thread) continue;  // minutes
    const std::vector<TensorList> gradients =
        alone(micro_batches, kind == Ranks::nccl ? Device::cuda() : Device::cpu());
    for (int ranks : {2, 3, 4})
      testing::expect_ranks_well(kind, ranks, [&](ProcessGroup& group) -> std::string {
        auto net = made(group.device());
        DataParallel parallel(*net, group, kSmall);
        parallel.set_sum_order(SumOrder::fast);
        for (int64_t g : parallel.share(micro_batches)) parallel.backward(net->loss(0, g), g);
        std::string own;
        for (const Tensor& x : net->parameters()) own += testing::checksum(x.grad()) + ' ';
        for (const std::string& other : group.gather_text(own))
          if (other != own) return "ranks have different bits";
        return check_bound(*net, gradients);
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

TEST(FastSums, RefuseWhatIsInTheTreesOrder) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    auto net = made();
    DataParallel parallel(*net, group);
    parallel.set_sum_order(SumOrder::fast);
    expect_error([&] { parallel.scatter_gradients(); }, "SumOrder::fast sends whole gradients");
    parallel.set_sum_order(SumOrder::tree);
    parallel.scatter_gradients();
    expect_error([&] { parallel.set_sum_order(SumOrder::fast); }, "gradients are scattered");
    parallel.share(2);
    expect_error([&] { parallel.set_sum_order(SumOrder::tree); }, "the step is not over");
    parallel.backward(net->loss(0, group.rank()), group.rank());
    return "";
  });
}

}  // namespace
}  // namespace reprise::distributed
