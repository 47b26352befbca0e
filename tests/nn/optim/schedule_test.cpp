// Learning-rate schedules against tables worked out by hand, and their shapes.
#include "reprise/nn/optim/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "reprise/core/error.h"
#include "reprise/tests/support/compare.h"

namespace reprise::optim {
namespace {

void expect_table(const Schedule& schedule, const std::vector<double>& want) {
  for (size_t step = 0; step < want.size(); ++step)
    EXPECT_NEAR(schedule(int64_t(step)), want[step], 1e-15) << "step " << step;
}

TEST(Schedule, ConstantStaysAtThePeakForEver) {
  expect_table({.lr = 2, .warmup = 0, .steps = 3, .decay = Decay::constant}, {2, 2, 2, 2, 2});
  expect_table({.lr = 2, .warmup = 3, .steps = 4, .decay = Decay::constant}, {0.5, 1, 1.5, 2, 2, 2});
}

TEST(Schedule, LinearFallsByEqualSteps) {
  expect_table({.lr = 5, .min_lr = 1, .steps = 4, .decay = Decay::linear}, {5, 4, 3, 2, 1, 1});
  expect_table({.lr = 6, .min_lr = 0, .warmup = 2, .steps = 5, .decay = Decay::linear},
               {2, 4, 6, 4, 2, 0, 0});
}

TEST(Schedule, CosineIsHalfAWave) {
  double root = std::sqrt(0.5);  // cos(pi / 4)
  expect_table({.lr = 3, .min_lr = 1, .steps = 4, .decay = Decay::cosine}, {3, 2 + root, 2, 2 - root, 1, 1});
  expect_table({.lr = 4, .min_lr = 0, .warmup = 1, .steps = 5, .decay = Decay::cosine},
               {2, 4, 2 * (1 + root), 2, 2 * (1 - root), 0});
}

TEST(Schedule, WsdIsStableAndFallsAtTheEnd) {
  expect_table({.lr = 4, .min_lr = 0, .warmup = 1, .steps = 10, .decay = Decay::wsd, .wsd_fraction = 0.4},
               {2, 4, 4, 4, 4, 4, 4, 3, 2, 1, 0, 0});
  // A decay longer than what the warm-up leaves begins right after it.
  expect_table({.lr = 4, .min_lr = 0, .warmup = 2, .steps = 4, .decay = Decay::wsd, .wsd_fraction = 1},
               {4 / 3.0, 8 / 3.0, 4, 2, 0});
}

TEST(Schedule, StepIsATenthAfterEachThird) {
  expect_table({.lr = 1, .steps = 6, .decay = Decay::step}, {1, 1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01});
  expect_table({.lr = 4, .warmup = 1, .steps = 7, .decay = Decay::step},
               {2, 4, 4, 0.4, 0.4, 0.4, 0.04, 0.04});
}

TEST(Schedule, RisesToThePeakThenNeverRisesAgainAndEndsAtTheMinimum) {
  for (Decay decay : {Decay::constant, Decay::linear, Decay::cosine, Decay::wsd})
    for (int64_t warmup : {0, 1, 7}) {
      double min_lr = decay == Decay::constant ? 0 : 0.1;
      Schedule schedule{.lr = 1, .min_lr = min_lr, .warmup = warmup, .steps = 50, .decay = decay};
      EXPECT_EQ(schedule(warmup), 1);
      for (int64_t step = 0; step < 60; ++step) {
        EXPECT_GT(schedule(step), 0);
        if (step < warmup) {
          EXPECT_LT(schedule(step), schedule(step + 1)) << step;
        } else {
          EXPECT_GE(schedule(step), schedule(step + 1)) << step;
        }
      }
      if (decay != Decay::constant) {
        EXPECT_EQ(schedule(50), 0.1);
        EXPECT_GT(schedule(49), 0.1);
      }
    }
}

TEST(Schedule, RefusesWhatItsDecayWouldIgnore) {
  auto expect_refused = [](const Schedule& schedule, const std::vector<std::string>& parts) {
    testing::expect_error([&] { schedule(0); }, parts);
  };
  expect_refused({.min_lr = 0.5, .decay = Decay::constant}, {"min_lr 0.5", "constant"});
  expect_refused({.min_lr = 0.5, .decay = Decay::step}, {"min_lr 0.5", "step"});
  expect_refused({.decay = Decay::linear, .wsd_fraction = 0.5}, {"wsd_fraction 0.5", "not wsd"});
  expect_refused({.lr = 1e-3},
                 {"Schedule: steps 0: every decay but constant needs the steps of the whole run"});
  EXPECT_EQ((Schedule{.lr = 2, .decay = Decay::constant})(7), 2);
  testing::expect_error([] { Schedule{.steps = 10}(-1); }, "Schedule: step -1; the first is 0");
}

TEST(Schedule, AWarmUpAsLongAsTheRunIsFine) {
  for (Decay decay : {Decay::linear, Decay::cosine, Decay::wsd}) {
    Schedule schedule{.lr = 1, .min_lr = 0.25, .warmup = 4, .steps = 4, .decay = decay};
    expect_table(schedule, {0.2, 0.4, 0.6, 0.8, 0.25});
  }
}

TEST(ParseDecay, KnowsItsNamesAndListsThem) {
  EXPECT_EQ(parse_decay("constant"), Decay::constant);
  EXPECT_EQ(parse_decay("linear"), Decay::linear);
  EXPECT_EQ(parse_decay("cosine"), Decay::cosine);
  EXPECT_EQ(parse_decay("wsd"), Decay::wsd);
  EXPECT_EQ(parse_decay("step"), Decay::step);
  testing::expect_error([] { parse_decay("cosin"); }, {"cosin", "constant, linear, cosine, wsd or step"});
}

TEST(Schedule, WarmsUpFromTheRateItIsGiven) {
  expect_table({.lr = 5, .warmup = 3, .start_lr = 1, .steps = 5, .decay = Decay::constant}, {2, 3, 4, 5, 5});
  testing::expect_error([] { Schedule({.start_lr = 0.5})(0); }, {"Schedule", "start_lr 0.5", "no warm-up"});
}

TEST(Schedule, MayRiseAsThatOfWeightDecayDoes) {
  expect_table({.lr = 1, .min_lr = 3, .steps = 2}, {1, 2, 3, 3});
}

}  // namespace
}  // namespace reprise::optim
