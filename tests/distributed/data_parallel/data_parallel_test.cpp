// DataParallel's buckets, partial sums, and what it refuses.
// labels: concurrency
#include "reprise/distributed/data_parallel/data_parallel.h"

#include <gtest/gtest.h>

#include "reprise/autograd/meta.h"
#include "reprise/autograd/ops.h"
#include "reprise/nn/batch_norm.h"
#include "reprise/nn/linear.h"
#include "reprise/tests/distributed/ranks.h"
#include "reprise/tests/support/compare.h"

namespace reprise::distributed {
namespace {

using testing::expect_error;
using testing::Ranks;
using testing::run_ranks;
using testing::same_bits;

Tensor leaf(int64_t numel, DType dtype = DType::f32) {
  return Tensor::zeros({numel}, dtype).set_requires_grad();
}

TEST(Buckets, AreFilledFromTheLastParameter) {
  const TensorList parameters{leaf(10), leaf(300), leaf(20), leaf(5), leaf(100), leaf(50)};
  const auto buckets = plan_buckets(parameters, {.bytes = 1000, .first_bytes = 400});
  ASSERT_EQ(buckets.size(), 3u);
  EXPECT_EQ(buckets[0].parameters, (std::vector<size_t>{5, 4})) << "600 bytes, more than 400";
  EXPECT_EQ(buckets[1].parameters, (std::vector<size_t>{3, 2, 1})) << "1,300 bytes, more than 1,000";
  EXPECT_EQ(buckets[2].parameters, std::vector<size_t>{0});
  EXPECT_EQ(buckets[1].numel, 325);
  EXPECT_TRUE(plan_buckets({}, {}).empty());
  expect_error([] { plan_buckets({}, {.bytes = 0}); }, "buckets: sizes are 1048576 and 0 bytes");
}

TEST(Buckets, HaveOneDtypeEachThatOfTheGradients) {
  const TensorList parameters{leaf(10), leaf(10, DType::bf16), leaf(10), leaf(10, DType::bf16)};
  parameters[3].set_grad_dtype(DType::f32);
  const auto buckets = plan_buckets(parameters, {});
  ASSERT_EQ(buckets.size(), 2u);
  EXPECT_EQ(buckets[0].dtype, DType::f32);
  EXPECT_EQ(buckets[0].parameters, (std::vector<size_t>{3, 2, 0}));
  EXPECT_EQ(buckets[1].dtype, DType::bf16);
  EXPECT_EQ(buckets[1].parameters, std::vector<size_t>{1});
}

TEST(PartialSums, HoldFewSumsAndGiveTheNodes) {
  PartialSums sums;
  for (int64_t leaf_of : {6, 7, 8, 9, 10})
    sums.push(leaf_of, Tensor::from<float>({float(1 << leaf_of)}, {1}));
  const TensorList nodes = sums.take();  // (6 7) (8 9) 10
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_EQ(nodes[0].item(), 64 + 128);
  EXPECT_EQ(nodes[1].item(), 256 + 512);
  EXPECT_EQ(nodes[2].item(), 1024);
  EXPECT_TRUE(sums.take().empty());
}

TEST(PartialSums, CountWhatIsAbsentAsZerosBesideOthers) {
  PartialSums sums;
  sums.push(0, {});
  sums.push(1, Tensor::from<float>({-0.0f, 2}, {2}));
  sums.push(2, {});
  sums.push(3, {});
  const TensorList nodes = sums.take();
  ASSERT_EQ(nodes.size(), 1u) << "0 ... 3";
  EXPECT_TRUE(same_bits(nodes[0], Tensor::from<float>({0, 2}, {2})));
  sums.push(0, {});
  sums.push(1, {});
  EXPECT_FALSE(sums.take()[0].defined());
}

TEST(PartialSums, LeaveAGradientAloneThatSomebodyKeeps) {
  PartialSums sums;
  const Tensor kept = Tensor::from<float>({1}, {1});
  sums.push(0, kept);
  sums.push(1, Tensor::from<float>({2}, {1}));
  EXPECT_EQ(kept.item(), 1);
  EXPECT_EQ(sums.take()[0].item(), 3);
}

// Of three parameters, of 2, 1 and 6 elements, in the order of backward.
const TensorList packed_leaves{leaf(2), leaf(1), leaf(6)};
const Bucket packed_bucket{.parameters = {2, 1, 0}, .numel = 9};

TEST(PackedBucket, PutsGradientsInARowAndZerosForAbsentOnes) {
  const Tensor a = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}), buffer = Tensor::zeros({11});
  buffer.fill_(9);
  PackedBucket packed(whole_form(packed_bucket, packed_leaves), DType::f32, {}, buffer.slice(0, 1, 10));
  packed.put(0, {{}, Tensor::from<float>({8, 8}, {2})});
  packed.put(2, {a.transpose(0, 1), {}});
  EXPECT_TRUE(packed.has(2));
  EXPECT_FALSE(packed.has(1));
  EXPECT_TRUE(packed.is_in_place());
  const TensorList nodes = packed.take();
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_TRUE(same_bits(buffer, Tensor::from<float>({9, 1, 4, 2, 5, 3, 6, 0, 0, 0, 9}, {11})));
  EXPECT_TRUE(same_bits(nodes[1], Tensor::from<float>({0, 0, 0, 0, 0, 0, 0, 8, 8}, {9})));
  EXPECT_FALSE(packed.has(2));
  expect_error([&] { packed.put(0, {Tensor::zeros({2}, DType::bf16)}); },
               "a gradient is bf16 on cpu, its bucket f32 on cpu");
}

TEST(PackedBucket, TakesAnOnlyGradientAsItIsWhereNothingElseHoldsIt) {
  const Bucket bucket{.parameters = {2}, .numel = 6};
  Tensor given = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const void* const memory = given.view().data;
  const auto flat_of = [&](TensorList sums) {
    PackedBucket packed(whole_form(bucket, packed_leaves), DType::f32, {});
    packed.put(2, std::move(sums));
    return packed.take()[0];
  };
  const Tensor kept = flat_of({given});
  EXPECT_NE(kept.view().data, memory);
  EXPECT_TRUE(same_bits(kept, given.reshape({6})));
  TensorList alone;
  alone.push_back(std::move(given));
  EXPECT_EQ(flat_of(std::move(alone)).view().data, memory);
}

// Of three pieces one is rank 0's, and behind it there is padding.
TEST(PackedBucket, HasTheRanksPartsWithZerosBehindThem) {
  constexpr int64_t piece = 16384;
  const Bucket bucket{.parameters = {1, 0}, .numel = 3 * piece};
  const Shards shards({bucket}, {piece, 2 * piece}, 2);
  const int64_t part = shards.part_numel(0);
  ASSERT_EQ(part, 2 * piece);
  const Tensor into = Tensor::zeros({2 * part});
  into.fill_(9);
  PackedBucket packed(parts_form(shards, 0), DType::f32, {}, into);
  for (const size_t i : {0, 1}) {
    Tensor gradient = Tensor::zeros({i == 0 ? piece : 2 * piece});
    gradient.fill_(double(i + 1));
    packed.put(i, {gradient});
  }
  packed.take();
  const std::vector<float> values = into.to_vector<float>();
  const std::vector<float> wanted{2, 0, 2, 1};
  for (int64_t at = 0; at < 4 * piece; ++at) ASSERT_EQ(values[size_t(at)], wanted[size_t(at / piece)]) << at;
}

struct Net : nn::Module {
  nn::Linear first, last;
  nn::BatchNorm1d norm{3};
  explicit Net(int64_t width = 3) : first(width, 3), last(3, 1) {
    register_module("first", first);
    register_module("norm", norm);
    register_module("last", last);
  }
  Tensor loss(double x) {
    Tensor in = Tensor::zeros({2, first.weight.size(1)});
    in.fill_(x);
    return last(relu(first(in))).mean();
  }
};

TEST(DataParallel, GivesRank0sWeightsAndBuffers) {
  testing::expect_ranks_well(Ranks::threads, 3, [](ProcessGroup& group) -> std::string {
    manual_seed(uint64_t(group.rank()));
    Net net;
    for (auto& [name, buffer] : net.named_buffers()) buffer.fill_(group.rank() + 5);
    DataParallel parallel(net, group);
    for (auto& [name, buffer] : net.named_buffers())
      if (buffer.to_vector<double>()[0] != 5) return name;
    manual_seed(0);
    Net want;
    for (size_t i = 0; i < net.parameters().size(); ++i)
      if (!same_bits(net.parameters()[i], want.parameters()[i])) return "another weight";
    return "";
  });
}

TEST(DataParallel, NamesTheFirstDifferenceOfModels) {
  const auto wrong = run_ranks(Ranks::threads, 3, [](ProcessGroup& group) -> std::string {
    Net net(group.rank() == 1 ? 4 : 3);
    DataParallel parallel(net, group);
    return "no error";
  });
  for (const std::string& one : wrong)
    EXPECT_EQ(one,
              "Error: DataParallel: ranks differ: rank 0 has first.weight f32(3, 3) with "
              "gradient f32, rank 1 "
              "has first.weight f32(3, 4) with gradient f32");
}

TEST(DataParallel, RefusesMissingRepeatedAndForeignMicroBatches) {
  const auto wrong = run_ranks(Ranks::threads, 2, [](ProcessGroup& group) -> std::string {
    Net net;
    DataParallel parallel(net, group);
    expect_error([&] { parallel.share(3); }, "3 micro-batches are no multiple of 2 ranks; 2 or 4 are");
    const std::vector<int64_t> mine = parallel.share(6);
    const int64_t first = mine[0];
    EXPECT_EQ(mine, (std::vector<int64_t>{first, first + 1, first + 2}));
    EXPECT_EQ(first, 3 * group.rank());
    expect_error([&] { parallel.backward(net.loss(1), (first + 3) % 6); }, "is not in this rank's share");
    expect_error([&] { parallel.backward(net.loss(1), first + 1); }, "is missing before");
    parallel.backward(net.loss(1), first);
    expect_error([&] { parallel.backward(net.loss(1), first); }, "was given already");
    expect_error([&] { parallel.share(6); }, "the step is not over: micro-batches");
    parallel.backward(net.loss(1), first + 1);
    EXPECT_FALSE(net.last.weight.grad().defined()) << "until the last one";
    parallel.backward(net.loss(1), first + 2);
    EXPECT_TRUE(net.last.weight.grad().defined());
    expect_error([&] { parallel.share(6); }, "first.weight has a gradient already");
    net.zero_grad();
    EXPECT_EQ(parallel.share(2).size(), 1u) << "another number of micro-batches";
    parallel.backward(net.loss(1), group.rank());
    return "";
  });
  for (const std::string& one : wrong) EXPECT_EQ(one, "");
}

TEST(DataParallel, LeavesOtherPassesAlone) {
  auto group = ProcessGroup::alone();
  Net net;
  {
    DataParallel parallel(net, *group);
    net.loss(1).backward();
    EXPECT_TRUE(net.last.weight.grad().defined());
    expect_error([&] { parallel.share(1); }, "has a gradient already");
  }
  net.zero_grad();
  net.loss(1).backward();
  EXPECT_TRUE(net.last.weight.grad().defined()) << "its hooks have gone";
}

TEST(DataParallel, RefusesToGoOnAfterAFailedPass) {
  auto group = ProcessGroup::alone();
  Net net;
  DataParallel parallel(net, *group);
  auto remove = autograd::register_post_accumulate_hook(net.first.weight, [] { throw Error("hook"); });
  parallel.share(2);
  expect_error([&] { parallel.backward(net.loss(1), 0); }, "hook");
  expect_error([&] { parallel.backward(net.loss(1), 0); }, "the pass of micro-batch 0 failed");
  expect_error([&] { parallel.share(2); }, "the pass of micro-batch 0 failed");
  remove();
}

}  // namespace
}  // namespace reprise::distributed
