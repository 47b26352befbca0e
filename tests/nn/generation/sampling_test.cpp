// Sampling: which tokens may come, and how often they do.
#include "reprise/nn/generation/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "reprise/tests/support/compare.h"

namespace reprise {
namespace {

using testing::expect_error;

// Logits of the probabilities 0.1, 0.4, 0.2, 0.3: not sorted, and shifted, which must not matter.
const std::vector<double> kProbabilities = {0.1, 0.4, 0.2, 0.3};
std::vector<float> logits(double shift = 5) {
  std::vector<float> out;
  for (double p : kProbabilities) out.push_back(float(std::log(p) + shift));
  return out;
}

constexpr int kDraws = 20000;

std::map<int32_t, int> counts(const SamplingOptions& options, const std::vector<float>& of = logits()) {
  Generator generator(42);
  std::map<int32_t, int> seen;
  for (int i = 0; i < kDraws; ++i) ++seen[sample_token(of, options, generator)];
  return seen;
}

// Pearson's chi-square of the counts against probabilities (0: must not come). With up to 3 degrees of
// freedom it is above 16.3 once in a thousand seeds; the seed is fixed.
void expect_distribution(std::map<int32_t, int> seen, const std::vector<double>& want) {
  double chi_square = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] == 0) {
      EXPECT_EQ(seen[int32_t(i)], 0) << "token " << i;
    } else {
      chi_square += std::pow(seen[int32_t(i)] - kDraws * want[i], 2) / (kDraws * want[i]);
    }
  }
  EXPECT_LT(chi_square, 16.3);
}

TEST(SampleToken, FollowsTheSoftmaxOfTheLogits) {
  expect_distribution(counts({.temperature = 1}), kProbabilities);
  expect_distribution(counts({.temperature = 1}, logits(-300)), kProbabilities);
}

TEST(SampleToken, TemperatureRaisesProbabilitiesToItsInverse) {
  for (double temperature : {0.5, 2.0}) {
    std::vector<double> want;
    double total = 0;
    for (double p : kProbabilities) want.push_back(std::pow(p, 1 / temperature)), total += want.back();
    for (double& p : want) p /= total;
    expect_distribution(counts({.temperature = temperature}), want);
  }
}

TEST(SampleToken, TemperatureZeroTakesTheMostLikelyAndTheFirstOfEquals) {
  Generator generator(1);
  EXPECT_EQ(sample_token(logits(), {.temperature = 0}, generator), 1);
  std::vector<float> equals = {1, 3, 2, 3, 3};
  EXPECT_EQ(sample_token(equals, {.temperature = 0}, generator), 1);
  // Tiny is not zero: any of the equals may come, but no other.
  EXPECT_EQ(equals[size_t(sample_token(equals, {.temperature = 1e-300}, generator))], 3);
}

TEST(SampleToken, TopKKeepsTheKMostLikelyInProportion) {
  expect_distribution(counts({.temperature = 1, .top_k = 1}), {0, 1, 0, 0});
  expect_distribution(counts({.temperature = 1, .top_k = 2}), {0, 4 / 7.0, 0, 3 / 7.0});
  expect_distribution(counts({.temperature = 1, .top_k = 4}), kProbabilities);
  expect_distribution(counts({.temperature = 1, .top_k = 100}), kProbabilities);
}

TEST(SampleToken, TopPKeepsTheFewestThatHoldThatMuchProbability) {
  expect_distribution(counts({.temperature = 1, .top_p = 1e-9}), {0, 1, 0, 0});
  expect_distribution(counts({.temperature = 1, .top_p = 0.39}), {0, 1, 0, 0});
  expect_distribution(counts({.temperature = 1, .top_p = 0.41}), {0, 4 / 7.0, 0, 3 / 7.0});
  expect_distribution(counts({.temperature = 1, .top_p = 0.71}), {0, 4 / 9.0, 2 / 9.0, 3 / 9.0});
  expect_distribution(counts({.temperature = 1, .top_p = 0.95}), kProbabilities);
}

TEST(SampleToken, TopPIsOfWhatTemperatureAndTopKLeave) {
  // Of 4/7 and 3/7 the first alone holds 0.5.
  expect_distribution(counts({.temperature = 1, .top_k = 2, .top_p = 0.5}), {0, 1, 0, 0});
  // At temperature 2 the largest is sqrt(0.4) / 1.943 = 0.325: two are needed for 0.4.
  std::map<int32_t, int> seen = counts({.temperature = 2, .top_p = 0.4});
  EXPECT_GT(seen[1], 0);
  EXPECT_GT(seen[3], 0);
  EXPECT_EQ(seen[0] + seen[2], 0);
}

TEST(SampleToken, MinPIsAPartOfTheLargestProbability) {
  // The largest is 0.4: others need 0.2, 0.28, 0.32.
  expect_distribution(counts({.temperature = 1, .min_p = 0.49}), {0, 4 / 9.0, 2 / 9.0, 3 / 9.0});
  expect_distribution(counts({.temperature = 1, .min_p = 0.7}), {0, 4 / 7.0, 0, 3 / 7.0});
  expect_distribution(counts({.temperature = 1, .min_p = 0.8}), {0, 1, 0, 0});
  expect_distribution(counts({.temperature = 1, .min_p = 0.2}), kProbabilities);
}

TEST(SampleToken, RepetitionPenaltyDividesPositiveLogitsAndMultipliesNegativeOnes) {
  const std::vector<float> both = {2, 1.5, -1, -1.5};
  Generator generator(1);
  const std::vector<int32_t> first = {0, 0}, last = {2};
  EXPECT_EQ(sample_token(both, {.repetition_penalty = 1.3, .temperature = 0}, generator, first), 0);
  EXPECT_EQ(sample_token(both, {.repetition_penalty = 1.4, .temperature = 0}, generator, first), 1)
      << "once, however often it came";
  const std::vector<float> negative = {-8, -9, -1, -1.5};
  EXPECT_EQ(sample_token(negative, {.repetition_penalty = 1.4, .temperature = 0}, generator, last), 2);
  EXPECT_EQ(sample_token(negative, {.repetition_penalty = 1.6, .temperature = 0}, generator, last), 3);
  expect_error([&] { sample_token(both, {.repetition_penalty = 2}, generator, std::vector<int32_t>{4}); },
               {"token 4 lies outside of the vocabulary of 4"});
}

TEST(SampleToken, DrawsOnceACallAndRepeatsFromItsState) {
  Generator generator(9);
  std::vector<int32_t> first, again;
  for (int i = 0; i < 50; ++i) first.push_back(sample_token(logits(), {.temperature = 1}, generator));
  EXPECT_EQ(generator.state().offset, 50u);
  generator.set_state({9, 0});
  for (int i = 0; i < 50; ++i) again.push_back(sample_token(logits(), {.temperature = 1}, generator));
  EXPECT_EQ(again, first);
  sample_token(logits(), {.temperature = 0}, generator);
  EXPECT_EQ(generator.state().offset, 51u) << "so that later samples do not depend on the temperature";
}

TEST(SampleToken, TokensThatAreRuledOutNeverCome) {
  std::vector<float> some = {-INFINITY, 1, -INFINITY, 1};
  std::map<int32_t, int> seen = counts({.temperature = 1}, some);
  EXPECT_EQ(seen[0] + seen[2], 0);
  EXPECT_GT(seen[1], 0);
  EXPECT_GT(seen[3], 0);
}

TEST(SampleToken, RefusesLogitsThatAreNotNumbers) {
  for (std::vector<float> bad :
       {std::vector<float>{}, {-INFINITY, -INFINITY}, {1, INFINITY}, {1, NAN, 2}, {NAN, 1}})
    for (double temperature : {0.0, 1.0}) {
      Generator generator(1);
      expect_error([&] { sample_token(bad, {.temperature = temperature}, generator); }, {"sample", "logits"});
    }
}

TEST(CheckSampling, RefusesOptionsOutOfRange) {
  expect_error([] { check_sampling({.temperature = -0.1}); }, {"temperature", "-0.1"});
  expect_error([] { check_sampling({.temperature = NAN}); }, {"temperature"});
  expect_error([] { check_sampling({.top_k = -1}); }, {"top-k", "-1"});
  expect_error([] { check_sampling({.top_p = 0}); }, {"top-p", "0"});
  expect_error([] { check_sampling({.top_p = 1.1}); }, {"top-p", "1.1"});
  expect_error([] { check_sampling({.min_p = -0.1}); }, {"min-p", "-0.1"});
  expect_error([] { check_sampling({.repetition_penalty = 0}); }, {"repetition penalty", "0"});
}

}  // namespace
}  // namespace reprise
