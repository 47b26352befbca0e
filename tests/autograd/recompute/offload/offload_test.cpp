// Offload: the bits of a run without it, what leaves the device and when it comes back, and that nothing is
// left behind.
#include <thread>

#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/autograd/recompute/offload/offload_saved.h"
#include "reprise/tests/autograd/recompute/offload/offload_support.h"

namespace reprise {
namespace {

using testing::all_sizes;
using testing::Chain;
using testing::expect_error;
using testing::kBytes;
using testing::kModes;
using testing::kRows;
using testing::kWidth;
using testing::leaf;
using testing::NoLeaks;
using testing::numbers;
using testing::same_bits;
using testing::test_device;

size_t held() { return allocator(test_device()).stats().allocated; }

TEST(Offload, KeepsTheBitsOfOutputsAndGradientsInBothModes) {
  Chain chain(5);
  TensorList want = chain.plain();
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(testing::name_of(mode));
    for (int64_t resident_regions : {0, 1, 2, 7}) {
      auto offload = all_sizes(resident_regions);
      for (int step = 0; step < 3; ++step)
        EXPECT_TRUE(same_bits(chain.train(Chain::offloaded(offload, mode)), want));
      EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
    }
  }
}

TEST(Offload, ParksWhatIsOlderThanTheLastRegions) {
  Chain chain(5);
  for (int64_t resident_regions : {0, 1, 3, 4}) {
    auto offload = all_sizes(resident_regions);
    chain.train(Chain::offloaded(offload));
    // The first input is a leaf, and stays. On a CUDA device what is still leaving when backward begins turns
    // back, if it is wanted first or next.
    auto offloaded = uint64_t(resident_regions > 0 ? 4 - resident_regions : 4);
    uint64_t read = test_device().is_cuda() && resident_regions <= 1 ? offloaded - 1 : offloaded;
    EXPECT_EQ(offload->stats().written_bytes, offloaded * kBytes) << resident_regions;
    EXPECT_EQ(offload->stats().read_bytes, read * kBytes) << resident_regions;
    EXPECT_EQ(offload->stats().peak_offloaded_bytes, offloaded * kBytes) << resident_regions;
  }
}

TEST(Offload, TakesWhatIsParkedOffTheDevice) {
  Chain chain(8);
  auto after_forward = [&](const std::shared_ptr<Offload>& offload) {
    size_t before = held();
    Tensor y = chain.forward(Chain::offloaded(offload));
    return held() - before;
  };
  auto peak_of_step = [&](const std::shared_ptr<Offload>& offload) {
    sum(chain.forward(Chain::offloaded(offload))).backward();  // gradients are there
    size_t before = held();
    allocator(test_device()).reset_peaks();
    sum(chain.forward(Chain::offloaded(offload))).backward();
    return allocator(test_device()).stats().peak_allocated - before;
  };
  size_t leaving = test_device().is_cuda() ? 1 : 0;  // the newest copy holds its tensor until the next region
  EXPECT_EQ(after_forward(all_sizes(1)), after_forward(nullptr) - (6 - leaving) * kBytes);
  EXPECT_EQ(after_forward(all_sizes(3)), after_forward(nullptr) - (4 - leaving) * kBytes);
  // In backward one more is there: the one that was fetched ahead.
  EXPECT_LE(peak_of_step(all_sizes(1)), peak_of_step(nullptr) - 5 * kBytes);
}

TEST(Offload, FetchesTheRegionBeforeAhead) {
  Chain chain(6);
  auto offload = all_sizes(1);
  chain.train(Chain::offloaded(offload));
  uint64_t turned_back = test_device().is_cuda() ? 1 : 0;
  EXPECT_EQ(offload->stats().prefetch_hits, 4 - turned_back);
  EXPECT_EQ(offload->stats().prefetch_misses, 0u);
  EXPECT_GE(offload->stats().seconds_waited, 0);
}

TEST(Offload, LeavesARegionThatBackwardHasReachedWhereItIs) {
  auto offload = all_sizes(1);
  auto region = offload->begin_region();
  region->add(numbers({kRows, kWidth}), "x");
  region->fetch(0);
  offload->begin_region();
  EXPECT_EQ(offload->stats().written_bytes, 0u);
}

TEST(Offload, UsesTheRoomOfAStepInTheNextOnes) {
  Chain chain(5);
  auto offload = all_sizes(1);
  chain.train(Chain::offloaded(offload));
  size_t reserved = offload->stats().reserved_bytes;
  EXPECT_EQ(reserved, 3 * kBytes);
  for (int step = 0; step < 3; ++step) chain.train(Chain::offloaded(offload));
  EXPECT_EQ(offload->stats().reserved_bytes, reserved);
}

TEST(Offload, TakesAPrefetchBackWhenBackwardGoesElsewhere) {
  if (test_device().is_cpu()) GTEST_SKIP() << "reading a file ahead takes no memory of the CPU device";
  auto offload = all_sizes(0);
  std::vector<std::shared_ptr<recompute::OffloadedRegion>> regions;
  for (int i = 0; i < 4; ++i) {
    regions.push_back(offload->begin_region());
    regions.back()->add(numbers({kRows, kWidth}), "x");
  }
  offload->begin_region();
  size_t before = held();
  regions[3]->fetch(0);
  EXPECT_EQ(held(), before + kBytes) << "region 2 is on its way";
  regions[1]->fetch(0);
  EXPECT_EQ(held(), before + kBytes) << "region 0 is, region 2 no longer";
  regions[0]->fetch(0);
  EXPECT_EQ(held(), before);
}

TEST(Offload, ReadsWhatAPolicyKeptOnceInAPass) {
  Chain chain(5);
  Policy policy(
      [](const PolicyOp& op) { return op.name == "gelu" ? Decision::recompute : Decision::offload; });
  auto offload = all_sizes(0);
  auto run = [&](const Tensor& w, const Tensor& h) {
    auto body = [w](const Tensor& in) { return sin(sin(Chain::layer(in, w))); };
    return checkpoint(body, h, {.policy = policy, .offload = offload});
  };
  auto plain = [](const Tensor& w, const Tensor& h) { return sin(sin(Chain::layer(h, w))); };
  TensorList want = chain.train(plain);
  EXPECT_TRUE(same_bits(chain.train(run), want));
  EXPECT_GT(offload->stats().written_bytes, 8 * kBytes);
  EXPECT_LE(offload->stats().read_bytes, offload->stats().written_bytes);
  EXPECT_LE(offload->stats().prefetch_misses, 1u);
}

TEST(Offload, ReadsAgainInEachPassOverARetainedGraph) {
  Chain chain(5);
  auto passes = [&](const auto& run) {
    for (const Tensor& w : chain.weights) w.set_grad({});
    Tensor y = chain.forward(run);
    TensorList grads;
    for (bool retain : {true, true, false}) {
      sum(y).backward({}, retain);
      grads.push_back(chain.weights[0].grad().clone());
      grads.push_back(chain.weights[4].grad().clone());
    }
    return grads;
  };
  TensorList want = passes([](const Tensor& w, const Tensor& h) { return Chain::layer(h, w); });
  NoLeaks guard;
  auto offload = all_sizes(1);
  EXPECT_TRUE(same_bits(passes(Chain::offloaded(offload)), want));
  EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
}

TEST(Offload, KeepsTheBitsOfSecondDerivatives) {
  Chain chain(3);
  auto second = [&](const auto& run) {
    Tensor y = chain.forward(run);
    TensorList first = grad({sum(square(y))}, {chain.x}, {}, {.create_graph = true});
    return grad({sum(square(first[0]))}, {chain.x, chain.weights[1]});
  };
  TensorList want = second([](const Tensor& w, const Tensor& h) { return Chain::layer(h, w); });
  NoLeaks guard;
  EXPECT_TRUE(same_bits(second(Chain::offloaded(all_sizes(0))), want));
}

TEST(Offload, KeepsTheBitsOfNestedRegionsInAnyMixOfModes) {
  Chain chain(4);
  TensorList want = chain.plain();
  for (CheckpointMode outer : kModes)
    for (CheckpointMode inner : kModes) {
      SCOPED_TRACE(std::string(testing::name_of(outer)) + " around " + testing::name_of(inner));
      NoLeaks guard;
      auto offload = all_sizes(1);
      auto run = [&](const Tensor& w, const Tensor& h) {
        auto body = [=](const Tensor& in) {
          Tensor a = checkpoint([w](const Tensor& t) { return linear(t, w, {}); }, in,
                                {.mode = inner, .offload = offload});
          return checkpoint([](const Tensor& t) { return dropout(gelu(t), 0.25); }, a,
                            {.mode = inner, .offload = offload});
        };
        return checkpoint(body, h, {.mode = outer, .offload = offload});
      };
      for (int step = 0; step < 2; ++step) EXPECT_TRUE(same_bits(chain.train(run), want));
      EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
      // In the first run the inner inputs are the outer region's to keep. A replay of a reentrant one
      // offloads.
      if (outer == CheckpointMode::non_reentrant) {
        EXPECT_EQ(offload->stats().written_bytes, 2 * 2 * kBytes);
      }
      chain.x.set_grad({});
      for (const Tensor& w : chain.weights) w.set_grad({});
    }
}

TEST(Offload, RejectsAnInputThatChangedBeforeOrAfterItWasParked) {
  Tensor x = leaf({kRows, kWidth});
  for (int64_t resident_regions : {0, 2}) {
    NoLeaks guard;
    auto offload = all_sizes(resident_regions);
    Tensor h = square(x);
    Tensor y = checkpoint([](const Tensor& in) { return sin(in); }, h, {.offload = offload});
    offload->begin_region();
    {
      NoGrad none;
      h.fill_(7);
    }
    expect_error([&] { y.sum().backward(); }, {"checkpoint: input 0", "changed in place"});
  }
}

// The copy may be made before or after the change, so the old value or an Error: never the new value.
TEST(Offload, NeverReturnsTheNewValueOfAnInputThatChangedAndWent) {
  Tensor x = leaf({kRows, kWidth});
  auto offload = all_sizes(0);
  Tensor h = square(x);
  Tensor want = h.clone();
  auto offloaded = offload->put(h.detach());
  {
    NoGrad none;
    h.fill_(7);
  }
  h = Tensor();
  offload->begin_region();
  if (test_device().is_cuda())
    expect_error([&] { offloaded->fetch(); }, {"offload", "changed in place while it was offloaded"});
  else
    EXPECT_TRUE(same_bits(offloaded->fetch(), want));
}

TEST(Offload, LeavesLeavesSmallTensorsAndParametersWhereTheyAre) {
  auto offload = std::make_shared<Offload>(OffloadOptions{.resident_regions = 0, .min_bytes = kBytes});
  Tensor x = leaf({kRows, kWidth}), small = numbers({kRows, kWidth - 1}),
         parameter = numbers({kRows, kWidth});
  parameter.storage()->set_category(MemoryCategory::parameters);
  Tensor y = checkpoint([](const TensorList& in) { return sum(in[0]) + sum(in[1]) + sum(in[2]); },
                        TensorList{x, small, parameter.transpose(0, 1)}, {.offload = offload});
  EXPECT_EQ(offload->stats().written_bytes, 0u);
  y.backward();
}

TEST(Offload, LeavesNothingBehindWhenARegionThrowsOrIsNotRunBackward) {
  Chain chain(4);
  auto offload = all_sizes(0);
  {
    NoLeaks guard;
    int calls = 0;
    auto run = [&](const Tensor& w, const Tensor& h) {
      auto body = [&calls, w](const Tensor& in) {
        check(++calls < 4, "fn: no more");
        return Chain::layer(in, w);
      };
      return checkpoint(body, h, {.offload = offload});
    };
    expect_error([&] { chain.forward(run); }, {"fn: no more"});
    chain.forward(Chain::offloaded(offload));
    EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
  }
  EXPECT_TRUE(same_bits(chain.train(Chain::offloaded(offload)), chain.plain()));
}

TEST(Offload, ServesThreadsThatShareOneStore) {
  constexpr int count = 2;
  auto offload = all_sizes(1);
  std::vector<Chain> chains;
  std::vector<TensorList> got(count), want(count);
  auto step = [](const Chain& chain, const auto& run) {
    Tensor h = chain.x;
    for (const Tensor& w : chain.weights) h = run(w, h);
    sum(h).backward();
    TensorList grads;
    for (const Tensor& w : chain.weights) grads.push_back(w.grad());
    return grads;
  };
  for (int i = 0; i < 2 * count; ++i) chains.emplace_back(6);
  for (int i = 0; i < count; ++i)
    want[size_t(i)] = step(chains[size_t(count + i)],
                           [](const Tensor& w, const Tensor& h) { return gelu(linear(h, w, {})); });
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      got[i] = step(chains[i], [&](const Tensor& w, const Tensor& h) {
        return checkpoint([w](const Tensor& in) { return gelu(linear(in, w, {})); }, h, {.offload = offload});
      });
    });
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < count; ++i) EXPECT_TRUE(same_bits(got[i], want[i]));
  EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
}

TEST(Offload, RejectsANegativeKeepLast) {
  expect_error([] { Offload offload({.resident_regions = -1}); }, {"offload: resident_regions is -1"});
}

TEST(OffloadSaved, KeepsTheBitsOfAGraphWhoseSavedTensorsAreParked) {
  Chain chain(4);
  TensorList want = chain.plain();
  NoLeaks guard;
  auto offload = all_sizes();
  for (int step = 0; step < 2; ++step) {
    std::optional<OffloadSaved> scope(std::in_place, offload);
    int layers = 0;
    auto run = [&](const Tensor& w, const Tensor& h) {
      Tensor y = Chain::layer(h, w);
      if (++layers == 4) scope.reset();
      return y;
    };
    EXPECT_TRUE(same_bits(chain.train(run), want));
  }
  EXPECT_EQ(offload->stats().offloaded_bytes, 0u);
  EXPECT_GT(offload->stats().peak_offloaded_bytes, 8 * kBytes);
  EXPECT_GT(offload->stats().prefetch_hits, offload->stats().prefetch_misses);
  chain.x.set_grad({});
  for (const Tensor& w : chain.weights) w.set_grad({});
}

TEST(OffloadSaved, RejectsASavedTensorThatChanged) {
  OffloadSaved scope(all_sizes());
  Tensor x = leaf({kRows, kWidth}), h = square(x), y = exp(h);
  {
    NoGrad none;
    h.fill_(1);
  }
  expect_error([&] { y.sum().backward(); }, {"OffloadSaved", "changed in place"});
}

// The store has what was saved; where it came from is another value since, which an operation wrote there.
TEST(OffloadSaved, HasTheOldValueOfWhatAnOperationInPlaceWroteOver) {
  auto run = [](const std::shared_ptr<Offload>& offload) {
    const Tensor w = leaf({kWidth, kWidth}, 1);
    std::optional<OffloadSaved> scope;
    if (offload) scope.emplace(offload);
    Tensor h = w * 2.0, y = square(h);
    if (offload) offload->begin_region();  // copies have been made
    h.index_put_({0}, w[1]);
    y = y * h;
    h.add_(w, 0.5);
    scope.reset();
    sum(y + square(h)).backward();
    return TensorList{y.detach(), h.detach(), w.grad()};
  };
  EXPECT_TRUE(same_bits(run(all_sizes()), run(nullptr)));
}

}  // namespace
}  // namespace reprise
