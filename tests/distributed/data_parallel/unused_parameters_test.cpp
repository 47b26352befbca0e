// Parameters that a step did not use are not awaited in the next one, and go in a bucket more if they come all the same: no bit
// depends on it, at any stage of ZeRO.
// labels: concurrency
// slow in tsan
#include <gtest/gtest.h>

#include "reprise/autograd/ops.h"
#include "reprise/autograd/recompute/checkpoint.h"
#include "reprise/distributed/sharded/sharded_sgd.h"
#include "reprise/distributed/sharded/whole_weights.h"
#include "reprise/nn/linear.h"
#include "reprise/nn/optim/groups.h"
#include "reprise/tests/distributed/ranks.h"

namespace reprise::distributed {
namespace {

using testing::Ranks;

constexpr int64_t width = 160;
constexpr BucketOptions one_layer{.bytes = 4 * width * width, .first_bytes = 4 * width * width};
constexpr int64_t layer_bytes = 4 * (width * width + width);

// Whether micro-batch g of a step uses the last layer.
using Uses = bool (*)(int step, int64_t g);

// The layer that is registered last is in the bucket that goes first, and may be called or not.
struct Layers : nn::Module {
  nn::Linear first{width, width}, second{width, width}, third{width, width}, last{width, width};
  Layers() {
    register_module("first", first);
    register_module("second", second);
    register_module("third", third);
    register_module("last", last);
  }
  Tensor forward(const Tensor& x, bool uses_last) const {
    const Tensor y = third(second(first(x)));
    return uses_last ? last(y) : y;
  }
};

Tensor input(const ProcessGroup& group, int step, int64_t g) {
  manual_seed(uint64_t(100 * step + g));
  return randn({3, width}).to(group.device());
}

// Bytes that a rank sends until the gradient of what the first layer gives is there: a call there waits for all before it.
TEST(UnusedParameters, HoldNoBucketBack) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Layers net;
    DataParallel parallel(net, group, one_layer);
    EXPECT_EQ(parallel.buckets().size(), 4u);
    for (int step = 0; step < 3; ++step) {
      net.zero_grad();
      for (const int64_t g : parallel.share(2)) {
        const int64_t before = group.communication().bytes;
        int64_t sent = 0;
        const Tensor y = net.first(input(group, step, g));
        y.register_hook([&](const Tensor&) {
          const Tensor line = Tensor::zeros({16});
          group.all_reduce(line).wait();
          sent = group.communication().bytes - before - 64;
          return Tensor();
        });
        parallel.backward(square(net.third(net.second(y))).mean(), g);
        if (sent != (step == 0 ? 0 : 2 * layer_bytes))
          return detail::join("step ", step, ": ", sent, " bytes are sent before the first layer");
      }
    }
    return "";
  });
}

// What a step sends: the bucket of the last layer, whose bytes are zeros where it was awaited in vain, is left out from then on, and
// goes by itself where it comes back.
TEST(UnusedParameters, AreSentOnceTheyComeBack) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Layers net;
    DataParallel parallel(net, group, one_layer);
    constexpr bool uses[] = {true, false, false, true, true};
    constexpr int64_t layers[] = {4, 4, 3, 4, 4};
    constexpr int64_t agreement = 8;  // a byte for each parameter
    for (int step = 0; step < 5; ++step) {
      net.zero_grad();
      const int64_t before = group.communication().bytes;
      for (const int64_t g : parallel.share(2))
        parallel.backward(square(net.forward(input(group, step, g), uses[step])).mean(), g);
      const int64_t sent = group.communication().bytes - before;
      if (sent != layers[step] * layer_bytes + agreement)
        return detail::join("step ", step, " sends ", sent, " bytes");
      if (net.last.weight.grad().defined() != uses[step])
        return detail::join("step ", step, ": the last layer's gradient is wrong");
    }
    return "";
  });
}

enum class Recompute { none, non_reentrant, reentrant };

struct How {
  int stage = 0;
  bool last_is_block = false;  // at stage 3
  BucketOptions buckets = one_layer;
  SumOrder order = SumOrder::tree;
  Recompute recompute = Recompute::none;
  bool is_new_each_step = false;  // so that all parameters are awaited
};

// A line for each gradient that is whole, and each weight, of each step.
std::string trained(ProcessGroup& group, int64_t micro_batches, Uses uses, const How& how) {
  manual_seed(5);
  Layers net;
  net.to(group.device());
  std::vector<nn::Layer*> blocks;
  if (how.stage == 3) blocks = {&net.first, &net.second, &net.third};
  if (how.stage == 3 && how.last_is_block) blocks.push_back(&net.last);
  std::optional<DataParallel> parallel;
  std::optional<ShardedSgd> optimizer;  // which has no state
  std::string lines;
  for (int step = 0; step < 6; ++step) {
    if (step == 0 || how.is_new_each_step) {
      optimizer.reset();
      parallel.emplace(net, group, how.buckets);
      parallel->set_sum_order(how.order);
      optimizer.emplace(*parallel, optim::decay_matrices(net, 0.1, 0.1),
                        ShardedSgdOptions{.stage = how.stage, .blocks = blocks});
    }
    for (const int64_t g : parallel->share(micro_batches)) {
      const auto body = [&, is_used = uses(step, g)](const Tensor& x) { return net.forward(x, is_used); };
      Tensor x = input(group, step, g).set_requires_grad();
      if (how.recompute == Recompute::none)
        x = body(x);
      else
        x = recompute::checkpoint(
            body, x,
            {.mode = how.recompute == Recompute::reentrant ? recompute::CheckpointMode::reentrant
                                                           : recompute::CheckpointMode::non_reentrant});
      parallel->backward(square(x).mean(), g);
    }
    for (const auto& [name, p] : net.named_parameters())
      if (how.stage < 2) lines += detail::join(step, " d", name, ' ', testing::checksum(p.grad()), '\n');
    optimizer->step();
    optimizer->zero_grad();
    const WholeWeights whole(*parallel);
    for (const auto& [name, p] : net.named_parameters())
      lines += detail::join(step, ' ', name, ' ', testing::checksum(p), '\n');
  }
  return lines;
}

bool in_odd_steps(int step, int64_t) { return step % 2 == 1; }
bool from_step_3_on(int step, int64_t) { return step >= 3; }
bool in_no_step(int, int64_t) { return false; }
bool on_the_first_rank(int step, int64_t g) { return step != 2 && g == 0; }
bool on_the_last_rank_at_times(int step, int64_t g) { return step % 3 == 2 && g == 5; }
bool on_ranks_in_turn(int step, int64_t g) { return step % 2 ? g == 0 : g == 4; }

// What all ranks do alike may be done by a block; what one of them does alone, by what is around the blocks.
struct Case {
  std::string name;
  Uses uses;
  bool is_alike;
};

class UnusedParametersIn : public ::testing::TestWithParam<Case> {};

TEST_P(UnusedParametersIn, HaveTheBitsOfOneProcess) {
  const auto& [name, uses, is_alike] = GetParam();
  const std::string want = trained(*ProcessGroup::alone(), 6, uses, {});
  std::string weights;  // the lines of what is whole at all stages
  for (size_t begin = 0; begin < want.size();) {
    const size_t end = want.find('\n', begin) + 1;
    if (want[begin + 2] != 'd') weights += want.substr(begin, end - begin);
    begin = end;
  }
  auto expect = [&](Ranks kind, int ranks, const How& how) {
    const auto got =
        run_ranks(kind, ranks, [&](ProcessGroup& group) { return trained(group, 6, uses, how); });
    for (const std::string& of_rank : got)
      EXPECT_EQ(of_rank, how.stage < 2 ? want : weights)
          << ranks << ' ' << testing::name_of(kind) << ", stage " << how.stage << ", recompute "
          << int(how.recompute);
  };
  for (const int ranks : {2, 3})  // each with one node of the tree, or two
    for (const int stage : {0, 1, 2, 3})
      for (const bool last_is_block : {false, true})
        if (!last_is_block || (stage == 3 && is_alike))
          expect(Ranks::threads, ranks,
                 {.stage = stage,
                  .last_is_block = last_is_block,
                  .buckets = ranks == 3 ? BucketOptions{} : one_layer});  // one bucket, or four
  for (const Recompute recompute : {Recompute::non_reentrant, Recompute::reentrant})
    for (const int stage : {0, 2, 3})
      if (stage < 3 || is_alike)  // a replay of another length gathers blocks in another order
        expect(Ranks::threads, 2, {.stage = stage, .recompute = recompute});
  for (const Ranks kind : testing::kinds_of_ranks())
    if (kind != Ranks::threads) expect(kind, 2, {.stage = 2});
}

INSTANTIATE_TEST_SUITE_P(Steps, UnusedParametersIn,
                         ::testing::Values(Case{"odd_steps", in_odd_steps, true},
                                           Case{"no_step", in_no_step, true},
                                           Case{"late_steps", from_step_3_on, true},
                                           Case{"one_rank", on_the_first_rank, false},
                                           Case{"the_last_rank", on_the_last_rank_at_times, false},
                                           Case{"ranks_in_turn", on_ranks_in_turn, false}),
                         [](const auto& of) { return of.param.name; });

// A DataParallel that is new in each step awaits all. A ring's sums depend on the place in a bucket.
TEST(UnusedParameters, ChangeNoBitOfFastSums) {
  for (const Uses uses : {in_odd_steps, on_ranks_in_turn})
    for (const int stage : {0, 2}) {
      auto run = [&](bool is_new) {
        return run_ranks(Ranks::threads, 3, [&](ProcessGroup& group) {
          return trained(group, 6, uses,
                         {.stage = stage, .order = SumOrder::fast, .is_new_each_step = is_new});
        });
      };
      const auto want = run(true);
      EXPECT_EQ(want[0].find("Error"), std::string::npos) << want[0];
      EXPECT_EQ(run(false), want) << "stage " << stage;
    }
}

// On GPUs buckets lie in windows, which late gradients leave alone.
TEST(UnusedParameters, ChangeNoBitOnDevices) {
  if (testing::kinds_with_devices().empty()) GTEST_SKIP() << "no devices";
  for (const Ranks kind : testing::kinds_with_devices()) {
    auto run = [&](bool is_new) {
      return run_ranks(kind, 2, [&](ProcessGroup& group) {
        return trained(group, 2, in_odd_steps, {.is_new_each_step = is_new});
      });
    };
    const auto want = run(true);
    EXPECT_EQ(want[0].find("Error"), std::string::npos) << want[0];
    EXPECT_EQ(run(false), want) << testing::name_of(kind);
  }
}

// A hook may know a bucket from the step before, and gets each of them once a step.
TEST(UnusedParameters, AreAwaitedWhereAHookSendsThem) {
  testing::expect_ranks_well(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Layers net;
    DataParallel parallel(net, group, one_layer);
    std::vector<size_t> sent;
    parallel.set_bucket_hook([&](GradientBucket& bucket, ProcessGroup& of) {
      sent.push_back(bucket.index);
      return of.all_reduce(bucket.sums, ReduceOp::sum, bucket.label);
    });
    for (int step = 0; step < 4; ++step) {
      net.zero_grad();
      sent.clear();
      for (const int64_t g : parallel.share(2))
        parallel.backward(square(net.forward(input(group, step, g), in_odd_steps(step, g))).mean(), g);
      if (sent != std::vector<size_t>{0, 1, 2, 3})
        return detail::join("step ", step, " sends ", sent.size(), " buckets");
    }
    return "";
  });
}

}  // namespace
}  // namespace reprise::distributed
