// Draws: no two uses share a number, and each distribution has its moments.
#include "reprise/data/draws.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "reprise/data/order.h"

namespace reprise::data {
namespace {

TEST(Draws, AreTheBlocksOfTheirKeys) {
  Draws draws = sample_draws(7, 11, 2);
  for (uint64_t d = 0; d < 3; ++d) {
    const auto words = philox_block(7 ^ uint64_t(Use::augmentation), 11, 64 * 2 + d);
    EXPECT_EQ(draws.bits(), uint64_t(words[1]) << 32 | words[0]) << d;
  }
}

TEST(Draws, AreIndependent) {
  // Samples, their repeats and epochs, transforms: of 12,096 numbers of 64 bits two are equal once in 10^11 times.
  std::set<uint64_t> seen;
  size_t taken = 0;
  const Order order(7, 1, 3);
  for (int64_t position = 0; position < 3 * order.positions_per_epoch(); ++position)
    for (int transform = 0; transform < 3; ++transform) {
      Draws draws = sample_draws(1, order.at(position).key, transform);
      for (int d = 0; d < 64; ++d, ++taken) seen.insert(draws.bits());
    }
  EXPECT_EQ(taken, 3u * 21 * 3 * 64);
  EXPECT_EQ(seen.size(), taken);
}

TEST(Draws, OfEachUseAndSeedAreOthers) {
  std::set<uint64_t> seen;
  for (Use use : {Use::order, Use::augmentation, Use::noise, Use::mixing, Use::substitute, Use::mask_sizes,
                  Use::mask_places, Use::mask_cuts})
    for (uint64_t seed = 0; seed < 100; ++seed) seen.insert(Draws(seed_for(use, seed), 0, 0, 1).bits());
  EXPECT_EQ(seen.size(), 800u);
}

TEST(Draws, BeyondATransformsOwnAreABug) {
  Draws draws = sample_draws(1, 2, 3);
  for (int d = 0; d < 64; ++d) draws.bits();
  EXPECT_THROW(draws.bits(), Bug);
}

TEST(Draws, BelowReachesBothEndsAlike) {
  Draws draws(1, 0, 0, 7000);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 7000; ++i) ++counts[size_t(draws.below(7))];
  for (int count : counts) EXPECT_NEAR(count, 1000, 5 * std::sqrt(1000));  // five deviations
  EXPECT_EQ(bits_below(0, 5), 0);
  EXPECT_EQ(bits_below(~uint64_t(0), 5), 4);
}

// Mean and variance over 10,000 numbers, within five deviations of their own.
void expect_moments(const std::function<double(Draws&)>& draw, double mean, double variance,
                    double kurtosis) {
  constexpr int count = 10'000;
  Draws draws(3, 0, 0, 100 * count);
  double sum = 0, squares = 0;
  for (int i = 0; i < count; ++i) {
    const double value = draw(draws) - mean;
    sum += value, squares += value * value;
  }
  EXPECT_NEAR(sum / count, 0, 5 * std::sqrt(variance / count));
  EXPECT_NEAR(squares / count, variance, 5 * variance * std::sqrt((kurtosis - 1) / count));
}

TEST(Draws, HaveTheirDistributionsMoments) {
  expect_moments([](Draws& draws) { return draws.uniform(2, 5); }, 3.5, 0.75, 1.8);
  expect_moments([](Draws& draws) { return draws.normal(); }, 0, 1, 3);
  for (double shape : {0.2, 0.8, 1.0, 3.0})
    expect_moments([&](Draws& draws) { return draws.gamma(shape); }, shape, shape, 3 + 6 / shape);
  for (double a : {0.2, 0.8, 1.0, 4.0})
    expect_moments([&](Draws& draws) { return draws.beta(a, a); }, 0.5, 0.25 / (2 * a + 1),
                   3 - 6 / (2 * a + 3));
}

TEST(Draws, OfATinyBetaAreACoin) {
  Draws draws(5, 0, 0, 100'000);
  int ones = 0;
  for (int i = 0; i < 1000; ++i) {
    const double value = draws.beta(1e-5, 1e-5);
    ASSERT_TRUE(value >= 0 && value <= 1) << value;
    ones += value > 0.5;
  }
  EXPECT_NEAR(ones, 500, 5 * std::sqrt(250));
}

}  // namespace
}  // namespace reprise::data
