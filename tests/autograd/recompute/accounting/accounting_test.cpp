// Accounting: what regions save, make anew and cost, by name, against sizes that can be counted by hand.
#include "reprise/autograd/recompute/accounting/accounting.h"

#include <thread>

#include "reprise/autograd/anomaly.h"
#include "reprise/autograd/ops/index/indexing.h"
#include "reprise/tests/autograd/recompute/support.h"

namespace reprise {
namespace {

using namespace testing;
using recompute::Accounting;
using recompute::RegionStats;

constexpr size_t kBytes = 3 * 5 * sizeof(float);

// Saves its input and the square: exp keeps what it was given.
Tensor square_exp(const Tensor& x) { return exp(x * x); }

// Saves its input, the weight, their product and the exponential.
Tensor weighted(const Tensor& x, const Tensor& w) { return tanh(exp(x * w)); }

void expect_account(const RegionStats& got, const RegionStats& want) {
  EXPECT_EQ(got.name, want.name);
  EXPECT_EQ(got.calls, want.calls) << want.name;
  EXPECT_EQ(got.replays, want.replays) << want.name;
  EXPECT_EQ(got.bytes_saved, want.bytes_saved) << want.name;
  EXPECT_EQ(got.bytes_recomputed, want.bytes_recomputed) << want.name;
  EXPECT_EQ(got.replay_seconds > 0, want.replays > 0) << want.name;
}

TEST(Accounting, CountsBytesOfARegionWithoutItsInputsAndWhatItCaptured) {
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    Tensor given = leaf({3, 5}), w = leaf({3, 5}, 2);
    Accounting accounting;
    {
      OpScope scope("h.3");
      checkpoint([&](const Tensor& x) { return weighted(x, w); }, given, {.mode = mode}).sum().backward();
    }
    ASSERT_EQ(accounting.regions().size(), 1u);
    expect_account(
        accounting.regions()[0],
        {.name = "h.3", .calls = 1, .replays = 1, .bytes_saved = 2 * kBytes, .bytes_recomputed = 2 * kBytes});
    ASSERT_EQ(accounting.replays().size(), 1u);
    EXPECT_EQ(accounting.replays()[0].name, "h.3");
    EXPECT_LT(accounting.replays()[0].begin, accounting.replays()[0].end);
  }
}

TEST(Accounting, CountsATensorThatIsSavedTwiceOnce) {
  Tensor given = leaf({3, 5});
  Accounting accounting;
  checkpoint(
      [](const Tensor& x) {
        Tensor y = exp(x);  // three factors
        return y * y.reshape({3, 5}) * y;
      },
      given)
      .sum()
      .backward();
  EXPECT_EQ(accounting.total().bytes_saved, 2 * kBytes) << "y and its square";
  EXPECT_EQ(accounting.total().bytes_recomputed, 2 * kBytes);
}

TEST(Accounting, AnOperationInPlaceMakesAnotherTensorToSave) {
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    Tensor given = leaf({3, 5});
    Accounting accounting;
    checkpoint(
        [](const Tensor& x) {
          Tensor y = exp(x), before = square(y);
          y.index_put_({0}, x[1]);
          return before + square(y);
        },
        given, {.mode = mode})
        .sum()
        .backward();
    EXPECT_EQ(accounting.total().bytes_saved, 2 * kBytes) << "y before and after";
    EXPECT_EQ(accounting.total().bytes_recomputed, 2 * kBytes);
  }
}

TEST(Accounting, StorageThatIsFreedAndMadeAgainInTheFirstRunCountsEachTime) {
  Tensor given = leaf({3, 5});
  Accounting accounting;
  checkpoint(
      [](Tensor x) {
        for (int i = 0; i < 10; ++i) x = exp(x * 0.1);
        return x;
      },
      given)
      .sum()
      .backward();
  EXPECT_EQ(accounting.total().bytes_saved, 10 * kBytes);
  EXPECT_EQ(accounting.total().bytes_recomputed, 10 * kBytes);
}

TEST(Accounting, ADeadBranchIsSavedMemoryButIsNotRecomputed) {
  Tensor given = leaf({3, 5});
  Accounting accounting;
  auto [y, dead] =
      checkpoint([](const Tensor& x) { return std::tuple(exp(x * 2.0), tanh(exp(x * 3.0))); }, given);
  dead = Tensor();
  y.sum().backward();
  EXPECT_EQ(accounting.total().bytes_saved, 3 * kBytes);
  EXPECT_EQ(accounting.total().bytes_recomputed, kBytes);
}

TEST(Accounting, EveryBackwardPassOfARetainedGraphIsAReplay) {
  Tensor given = leaf({3, 5});
  Accounting accounting;
  Tensor y = checkpoint(square_exp, given).sum();
  for (int i = 0; i < 3; ++i) y.backward({}, /*retain_graph=*/true);
  expect_account(
      accounting.total(),
      {.name = "total", .calls = 1, .replays = 3, .bytes_saved = kBytes, .bytes_recomputed = 3 * kBytes});
}

TEST(Accounting, NestedRegionsCountForThemselves) {
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    Tensor given = leaf({3, 5});
    Accounting accounting;
    auto inner = [&](const Tensor& x) {
      OpScope scope("inner");
      return checkpoint([](const Tensor& in) { return tanh(exp(exp(in))); }, x, {.mode = mode});
    };
    auto outer = [&](const Tensor& x) { return inner(exp(x)); };
    {
      OpScope scope("outer");
      checkpoint(outer, given, {.mode = mode}).sum().backward();
    }
    // The outer region has its exponential alone, which is the input of the inner one.
    for (const RegionStats& region : accounting.regions()) {
      bool is_outer = region.name == "outer";
      EXPECT_EQ(region.calls, is_outer || mode == CheckpointMode::non_reentrant ? 1 : 0) << region.name;
      EXPECT_EQ(region.replays, 1) << region.name;
      EXPECT_EQ(region.bytes_recomputed, (is_outer ? 1 : 2) * kBytes) << region.name;
    }
    EXPECT_EQ(accounting.regions().size(), 2u);
  }
}

TEST(Accounting, ARegionOutsideAllScopesIsNamedAfterThoseInside) {
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    auto blocks = [](Tensor x, int first, int last) {
      for (int i = first; i <= last; ++i) {
        OpScope scope(detail::join("h.", i));
        x = exp(x * 0.1);
      }
      return x;
    };
    Tensor given = leaf({3, 5});
    Accounting accounting;
    Tensor y = checkpoint([&](const Tensor& x) { return blocks(x, 0, 2); }, given, {.mode = mode});
    y = checkpoint([&](const Tensor& x) { return blocks(x, 3, 3); }, y, {.mode = mode});
    checkpoint([](const Tensor& x) { return tanh(x); }, y, {.mode = mode}).sum().backward();
    auto regions = accounting.regions();
    ASSERT_EQ(regions.size(), 3u);
    EXPECT_EQ(regions[0].name, "h.0 .. h.2");
    EXPECT_EQ(regions[1].name, "h.3");
    EXPECT_EQ(regions[2].name, "");
    for (const RegionStats& region : regions) EXPECT_EQ(region.replays, 1) << region.name;
    EXPECT_EQ(accounting.replays().front().name, "");
    EXPECT_EQ(accounting.replays().back().name, "h.0 .. h.2");
  }
}

TEST(Accounting, CountsOnlyWhileItLivesAndTheInnermostCounts) {
  Tensor given = leaf({3, 5});
  checkpoint(square_exp, given).sum().backward();
  Accounting outer;
  checkpoint(square_exp, given).sum().backward();
  {
    Accounting inner;
    checkpoint(square_exp, given).sum().backward();
    EXPECT_EQ(inner.total().replays, 1);
  }
  Tensor y;
  {
    Accounting gone;
    y = checkpoint(square_exp, given).sum();
  }
  y.backward();
  EXPECT_EQ(outer.total().calls, 1);
  EXPECT_EQ(outer.total().replays, 1);
  checkpoint(square_exp, given).sum().backward();
  EXPECT_EQ(outer.total().calls, 2) << "counts again once the inner ones are gone";
  outer.reset();
  EXPECT_TRUE(outer.regions().empty());
  EXPECT_TRUE(outer.replays().empty());
}

TEST(Accounting, ReplaysOnOtherThreadsCountWhereTheRegionWasCalled) {
  Tensor given = leaf({3, 5});
  Accounting accounting;
  TensorList losses;
  for (int i = 0; i < 8; ++i) losses.push_back(checkpoint(square_exp, given).sum());
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&losses, t] {
      for (size_t i = size_t(t); i < losses.size(); i += 2) losses[i].backward();
    });
  while (accounting.total().replays < 8) std::this_thread::yield();
  for (std::thread& thread : threads) thread.join();
  expect_account(
      accounting.total(),
      {.name = "total", .calls = 8, .replays = 8, .bytes_saved = 8 * kBytes, .bytes_recomputed = 8 * kBytes});
}

TEST(Accounting, ChangesNoGradientAndNoMemory) {
  for (CheckpointMode mode : kModes) {
    SCOPED_TRACE(name_of(mode));
    NoLeaks no_leaks;
    auto run = [&](bool counted, size_t& peak) {
      std::optional<Accounting> accounting;
      if (counted) accounting.emplace(recompute::ReplayClock::device);
      Tensor given = leaf({33, 65}), w = leaf({33, 65}, 2);
      allocator(test_device()).reset_peaks();
      size_t before = allocator(test_device()).stats().allocated;
      Tensor y = given;
      for (int i = 0; i < 3; ++i)
        y = checkpoint([&](const Tensor& x) { return dropout(weighted(x, w), 0.2); }, y, {.mode = mode});
      y.sum().backward();
      peak = allocator(test_device()).stats().peak_allocated - before;
      return TensorList{given.grad(), w.grad()};
    };
    size_t plain_peak = 0, counted_peak = 0;
    manual_seed(1);
    TensorList plain = run(false, plain_peak);
    manual_seed(1);
    TensorList counted = run(true, counted_peak);
    EXPECT_TRUE(same_bits(counted, plain));
    EXPECT_EQ(counted_peak, plain_peak);
  }
}

}  // namespace
}  // namespace reprise
