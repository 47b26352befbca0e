// Masks: blocks of the sizes that I-JEPA states, everywhere in the grid, the same for any batch or rank.
#include "reprise/data/masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "reprise/data/order.h"
#include "reprise/tests/support/errors.h"

namespace reprise::data {
namespace {

using testing::expect_error;

constexpr int draws = 10000;

std::set<int64_t> patches_of(const PatchBlock& block, int64_t columns) {
  std::set<int64_t> patches;
  for (int64_t y = block.top; y < block.top + block.height; ++y)
    for (int64_t x = block.left; x < block.left + block.width; ++x) patches.insert(y * columns + x);
  return patches;
}

// What all masks must be; adds to the counts of patches that were context and target.
void expect_sound(const SampleMasks& masks, const MaskOptions& o, std::vector<int>& context,
                  std::vector<int>& target) {
  ASSERT_GE(int64_t(masks.context.size()), o.least_context);
  ASSERT_TRUE(std::is_sorted(masks.context.begin(), masks.context.end()));
  ASSERT_EQ(int64_t(masks.targets.size()), o.targets);
  std::set<int64_t> seen(masks.context.begin(), masks.context.end());
  ASSERT_EQ(seen.size(), masks.context.size());
  for (int64_t patch : seen) ++context.at(size_t(patch));
  for (const PatchBlock& block : masks.targets) {
    ASSERT_TRUE(block.top >= 0 && block.left >= 0 && block.top + block.height <= o.rows &&
                block.left + block.width <= o.columns);
    for (int64_t patch : patches_of(block, o.columns)) {
      ++target.at(size_t(patch));
      ASSERT_FALSE(seen.contains(patch)) << "patch " << patch << " is context and target";
    }
  }
}

TEST(Masks, MakeEveryPatchContextAndTarget) {
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{7, 7}, {14, 14}, {6, 11}}) {
    const MaskOptions options{.rows = rows, .columns = columns};
    const Masks masks(options, 5);
    std::vector<int> context(size_t(rows * columns)), target = context;
    for (int i = 0; i < draws; ++i) expect_sound(masks.of(i, uint64_t(i)), options, context, target);
    EXPECT_GT(*std::min_element(context.begin(), context.end()), draws / 10);
    EXPECT_GT(*std::min_element(target.begin(), target.end()), draws / 200) << "corners are the rarest";
  }
}

// 14 x 14: targets of 29 to 39 patches, so 5 to 8 high and 4 to 7 wide; the context's block has 166 to 196.
TEST(Masks, HaveTheSizesThatAreStated) {
  const Masks masks({}, 5);
  std::map<int64_t, int> heights, widths, contexts;
  for (int step = 0; step < draws; ++step) {
    const Masks::Sizes sizes = masks.sizes(step);
    ++heights[sizes.target.height], ++widths[sizes.target.width], ++contexts[sizes.context.height];
    EXPECT_EQ(sizes.context.height, sizes.context.width);
  }
  auto keys = [](const std::map<int64_t, int>& counts) {
    std::vector<int64_t> all;
    for (auto [size, count] : counts) all.push_back(size);
    return all;
  };
  EXPECT_EQ(keys(heights), (std::vector<int64_t>{5, 6, 7, 8}));
  EXPECT_EQ(keys(widths), (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(keys(contexts), (std::vector<int64_t>{13, 14}));
}

TEST(Masks, OfAStepHaveOneSize) {
  const Masks masks({}, 5);
  for (uint64_t key = 0; key < 50; ++key)
    for (const PatchBlock& block : masks.of(3, key).targets) {
      EXPECT_EQ(block.height, masks.sizes(3).target.height);
      EXPECT_EQ(block.width, masks.sizes(3).target.width);
    }
}

TEST(Masks, OfGridsFrom4To32End) {
  for (int64_t side = 4; side <= 32; ++side)
    for (int64_t other : {int64_t(4), side}) {
      const MaskOptions options{.rows = side, .columns = other};
      const Masks masks(options, 2);
      std::vector<int> context(size_t(side * other)), target = context;
      for (int i = 0; i < 200; ++i) expect_sound(masks.of(i, uint64_t(i)), options, context, target);
    }
}

// 4 x 4 with targets of 4 patches: 12 are left only if all targets lie in one place.
TEST(Masks, FallBackToOnePlaceForAllTargets) {
  const MaskOptions options{.rows = 4, .columns = 4, .least_context = 12};
  const Masks masks(options, 2);
  for (uint64_t key = 0; key < 100; ++key) EXPECT_GE(masks.of(int64_t(key), key).context.size(), 12u);
  expect_error([] { Masks({.rows = 4, .columns = 4, .least_context = 13}, 2); },
               "masks: a 4 x 4 grid leaves 12 context patches, 13 wanted");
}

// The Error states exactly what the largest target leaves: drawing finds a target of that size, and none larger.
TEST(Masks, KnowTheirLargestTarget) {
  for (int64_t side = 4; side <= 9; ++side) {
    const int64_t too_many = side * side;
    const std::string message =
        testing::error_of([&] { Masks({.rows = side, .columns = side, .least_context = too_many}, 0); });
    int64_t largest = 0;
    const Masks masks({.rows = side, .columns = side, .least_context = 1}, 0);
    for (int step = 0; step < draws; ++step) largest = std::max(largest, masks.sizes(step).target.area());
    EXPECT_NE(message.find(" leaves " + std::to_string(too_many - largest) + " context"), std::string::npos)
        << message << ", the largest target drawn has " << largest << " patches";
  }
}

std::vector<uint64_t> keys_of_step(int64_t step, int64_t rows) {
  const Order order(1000, 3);
  std::vector<uint64_t> keys;
  for (int64_t row = 0; row < rows; ++row) keys.push_back(order.at(step * rows + row).key);
  return keys;
}

// Each rank and micro-batch asks for its rows, and gets those of the whole step.
TEST(Masks, AreTheSameOnAnyRank) {
  const Masks masks({.rows = 7, .columns = 7}, 3);
  for (int64_t step : {0, 1, 50}) {
    const std::vector<uint64_t> keys = keys_of_step(step, 24);
    const BatchMasks whole = masks.batch(step, keys, 0, 24);
    for (int64_t ranks : {2, 4, 24})
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t count = 24 / ranks, first = rank * count;
        const BatchMasks part = masks.batch(step, keys, first, count);
        EXPECT_EQ(part.context.to_vector<int64_t>(),
                  whole.context.slice(0, first, first + count).to_vector<int64_t>());
        EXPECT_EQ(part.targets.to_vector<int64_t>(),
                  whole.targets.slice(0, first, first + count).to_vector<int64_t>());
      }
  }
}

// The row of a batch is the sample's own context, with as many patches as the shortest has.
TEST(Masks, CutContextsToTheShortestByChance) {
  const Masks masks({.rows = 7, .columns = 7}, 3);
  int64_t lost_first = 0, lost_last = 0, cut = 0;
  for (int64_t step = 0; step < 100; ++step) {
    const std::vector<uint64_t> keys = keys_of_step(step, 16);
    const BatchMasks batch = masks.batch(step, keys, 0, 16);
    const int64_t kept = batch.context.size(1);
    int64_t shortest = 49;
    for (int64_t row = 0; row < 16; ++row) {
      const SampleMasks own = masks.of(step, keys[size_t(row)]);
      const std::vector<int64_t> context = batch.context.slice(0, row, row + 1).to_vector<int64_t>();
      EXPECT_TRUE(std::includes(own.context.begin(), own.context.end(), context.begin(), context.end()));
      shortest = std::min(shortest, int64_t(own.context.size()));
      if (int64_t(own.context.size()) == kept) continue;
      ++cut;
      lost_first += context.front() != own.context.front();
      lost_last += context.back() != own.context.back();
    }
    EXPECT_EQ(kept, shortest);
  }
  EXPECT_GT(cut, 1000);
  // Both are binomial: of 1,000 and more, seven deviations are less than an eighth.
  EXPECT_NEAR(double(lost_first) / double(cut), double(lost_last) / double(cut), 0.125);
  EXPECT_GT(lost_first, cut / 20);
}

TEST(Masks, AreOthersForEachSampleEpochAndSeed) {
  const MaskOptions options;
  auto of = [&](uint64_t seed, uint64_t key) { return Masks(options, seed).of(0, key).context; };
  EXPECT_NE(of(1, 0), of(1, 1));
  EXPECT_NE(of(1, 0), of(1, 1000)) << "the same image of the next epoch";
  EXPECT_NE(of(1, 0), of(2, 0));
  EXPECT_EQ(of(1, 7), of(1, 7));
}

// The reference's block for a number in [0, 1), by its own steps.
std::pair<int64_t, int64_t> reference_block(double number, int64_t rows, int64_t columns) {
  const double scale = 0.15 + number * 0.05, ratio = 0.75 + number * 0.75;
  const auto patches = int64_t(double(rows * columns) * scale);
  auto height = int64_t(std::nearbyint(std::sqrt(double(patches) * ratio))),
       width = int64_t(std::nearbyint(std::sqrt(double(patches) / ratio)));
  while (height >= rows) --height;
  while (width >= columns) --width;
  return {height, width};
}

TEST(ReferenceMasks, HaveOneNumberForScaleAndRatio) {
  const Masks masks({.sampling = MaskSampling::reference}, 5);
  std::set<std::pair<int64_t, int64_t>> want, got;
  for (int i = 0; i < 100000; ++i) want.insert(reference_block(i / 100000.0, 14, 14));
  for (int step = 0; step < draws; ++step) {
    const Masks::Sizes sizes = masks.sizes(step);
    got.insert({sizes.target.height, sizes.target.width});
    EXPECT_EQ(sizes.context.height, 13);
    EXPECT_EQ(sizes.context.width, 13);
  }
  EXPECT_EQ(got, want);
}

// At 14 x 14 the context's block is always rows and columns 0 to 12.
TEST(ReferenceMasks, NeverTouchTheLastRowAndColumn) {
  const MaskOptions options{.sampling = MaskSampling::reference};
  const Masks masks(options, 5);
  std::vector<int> context(196), target = context;
  for (int i = 0; i < draws; ++i) expect_sound(masks.of(i, uint64_t(i)), options, context, target);
  for (int64_t patch = 0; patch < 196; ++patch) {
    const bool is_last = patch / 14 == 13 || patch % 14 == 13;
    EXPECT_EQ(context[size_t(patch)] == 0, is_last) << patch;
    EXPECT_EQ(target[size_t(patch)] == 0, is_last) << patch;
  }
}

TEST(ReferenceMasks, CutContextsToTheFirstPatches) {
  const Masks masks({.rows = 7, .columns = 7, .sampling = MaskSampling::reference}, 3);
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<uint64_t> keys = keys_of_step(step, 16);
    const BatchMasks batch = masks.batch(step, keys, 0, 16);
    for (int64_t row = 0; row < 16; ++row) {
      std::vector<int64_t> own = masks.of(step, keys[size_t(row)]).context;
      own.resize(size_t(batch.context.size(1)));
      EXPECT_EQ(batch.context.slice(0, row, row + 1).to_vector<int64_t>(), own);
    }
  }
}

// 5 x 5: the context's block has 16 patches, and more than 13 are wanted. The first targets hold to the end; later ones
// are let go, so that a patch may be both.
TEST(ReferenceMasks, LetTheLastTargetsGoAndEnd) {
  const MaskOptions options{
      .rows = 5, .columns = 5, .least_context = 13, .sampling = MaskSampling::reference};
  const Masks masks(options, 2);
  int shared_first = 0, shared_last = 0;
  for (uint64_t key = 0; key < 500; ++key) {
    const SampleMasks sample = masks.of(int64_t(key), key);
    EXPECT_GT(sample.context.size(), 13u);
    auto shares = [&](const PatchBlock& block) {
      for (int64_t patch : patches_of(block, 5))
        if (std::count(sample.context.begin(), sample.context.end(), patch) > 0) return 1;
      return 0;
    };
    shared_first += shares(sample.targets.front());
    shared_last += shares(sample.targets.back());
  }
  EXPECT_GT(shared_last, 450);
  EXPECT_LE(shared_first, shared_last);
  expect_error(
      [] { Masks({.rows = 5, .columns = 5, .least_context = 16, .sampling = MaskSampling::reference}, 0); },
      "masks: a 5 x 5 grid has context blocks of 16 patches, more than 16 wanted");
  expect_error([] { Masks({.rows = 1, .columns = 40, .sampling = MaskSampling::reference}, 0); },
               "a 1 x 40 grid");
}

TEST(Masks, RefuseOptionsThatDoNotFit) {
  expect_error([] { Masks({.rows = 3, .columns = 3}, 0); },
               "masks: a 3 x 3 grid leaves 8 context patches, 10 wanted");
  expect_error(
      [] {
        Masks({.rows = 0, .targets = 0, .target_scale = {0.2, 0.1}}, 0);
      },
      "a grid of 0 x 14", "0 targets", "target_scale from 0.2 to 0.1");
  const Masks masks({}, 0);
  expect_error([&] { masks.batch(0, std::vector<uint64_t>(4), 2, 3); },
               "masks: samples 2 to 5 of a step of 4");
}

}  // namespace
}  // namespace reprise::data
