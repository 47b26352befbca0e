// Schedules of three layers against timelines that were drawn by hand.
#include "reprise/apps/scale/schedule.h"

#include <gtest/gtest.h>

#include "reprise/tests/apps/scale/scenario.h"

namespace reprise::apps::scale {
namespace {

using namespace testing;

StepTimes two_ranks(const TrainingPlan& plan, double bytes_per_second, double slowdown = 1,
                    Counted counted = {}) {
  const Collectives ring(slow_links(bytes_per_second), place(2, 8), Reduce::ring);
  return simulate_step(three_layers(), plan, ring, 2, slowdown, counted);
}

// Forward ends at 6, the backward passes at 12, 16 and 18. At 8 bytes per second the buckets of 120, 80 and 40 bytes take 15, 10
// and 5 s: 12 to 27, to 37, to 42.
TEST(ScaleSchedule, ABucketWaitsForTheOneBefore) {
  const StepTimes times = two_ranks(plan_of_stage(0), 8);
  EXPECT_DOUBLE_EQ(times.step, 42.5);
  EXPECT_DOUBLE_EQ(times.compute, 18.5);
  EXPECT_DOUBLE_EQ(times.exposed(), 24);
  EXPECT_DOUBLE_EQ(times.last_bucket, 5);
}

// Ten times as fast: 12 to 13.5, 16 to 17, 18 to 18.5.
TEST(ScaleSchedule, ABucketWaitsForItsGradients) {
  const StepTimes times = two_ranks(plan_of_stage(0), 80);
  EXPECT_DOUBLE_EQ(times.step, 19);
  EXPECT_DOUBLE_EQ(times.exposed(), 0.5);
}

// One bucket for the second and the first layer is ready with the first: 12 to 13.5, 18 to 19.5.
TEST(ScaleSchedule, ABucketOfSeveralLayersWaitsForTheLowest) {
  TrainingPlan plan = plan_of_stage(0);
  plan.buckets.bytes = 1000;
  EXPECT_DOUBLE_EQ(two_ranks(plan, 80).step, 20);
}

TEST(ScaleSchedule, OneRankWaitsForNothing) {
  const Collectives none(slow_links(8), place(1, 8), Reduce::ring);
  for (int zero : {0, 1, 2, 3}) {
    const StepTimes times = simulate_step(three_layers(), plan_of_stage(zero), none, 1);
    EXPECT_DOUBLE_EQ(times.step, 18.5);
    EXPECT_EQ(times.exposed(), 0);
  }
}

// The update takes half as long, from 42 on; then weights of 120, 80 and 40 bytes are gathered in 7.5, 5 and 2.5 s.
TEST(ScaleSchedule, StageOneGathersWeightsToo) {
  EXPECT_DOUBLE_EQ(two_ranks(plan_of_stage(1), 8).step, 57.25);
}

// Half of the gradients' bytes: 12 to 19.5, to 24.5, to 27.
TEST(ScaleSchedule, StageTwoSendsHalfOfTheGradients) {
  EXPECT_DOUBLE_EQ(two_ranks(plan_of_stage(2), 8).step, 27.25 + 15);
}

// Gathers and scatters of 2.5, 5 and 7.5 s. Forward: gathered at 2.5; 2.5 to 3.5; gathered at 7.5; 7.5 to 9.5; gathered at 15; 15
// to 18. Backward of the third 18 to 24, meanwhile the second gathered 18 to 23; the third scattered 24 to 31.5, the first gathered
// 31.5 to 34, the second's backward 24 to 28, scattered 34 to 39; the first's backward 34 to 36, scattered 39 to 41.5.
TEST(ScaleSchedule, StageThreeGathersTheNextLayerMeanwhile) {
  const StepTimes times = two_ranks(plan_of_stage(3), 8);
  EXPECT_DOUBLE_EQ(times.step, 41.75);
  EXPECT_DOUBLE_EQ(times.compute, 18.25);
}

TEST(ScaleSchedule, OnlyTheLastMicroBatchSends) {
  TrainingPlan plan = plan_of_stage(0);
  plan.micro_batches = 4;
  EXPECT_DOUBLE_EQ(two_ranks(plan, 8).step, 18 + 42.5);
}

TEST(ScaleSchedule, RecomputeRunsForwardOfBlocksAgain) {
  TrainingPlan plan = plan_of_stage(0);
  plan.recomputes = true;  // the second layer, 2 s: backward ends at 12, 18 and 20
  EXPECT_DOUBLE_EQ(two_ranks(plan, 80).step, 21);
}

TEST(ScaleSchedule, GradientsOfHalfTheBytesTakeHalfTheTime) {
  TrainingPlan plan = plan_of_stage(0);
  plan.wire_bytes = 2;  // 12 to 19.5, to 24.5, to 27
  EXPECT_DOUBLE_EQ(two_ranks(plan, 8).step, 27.5);
}

// Everything computed takes twice as long: 37 s; the last bucket goes from 36 to 36.5.
TEST(ScaleSchedule, AllWaitForTheSlowestRank) {
  EXPECT_DOUBLE_EQ(two_ranks(plan_of_stage(0), 80, 2).step, 37.5);
}

TEST(ScaleSchedule, WhatIsNotCountedCostsNothing) {
  Links links = plain_links();  // 2 hops of 1 us per bucket; the last ends after backward
  const Collectives ring(links, place(2, 8), Reduce::ring);
  const StepProfile profile = three_layers();
  const double step =
      simulate_step(profile, plan_of_stage(0), ring, 2, 1, {.latency = true, .transfer = false}).step;
  EXPECT_NEAR(step - 18.5, 2e-6, 1e-12);
  EXPECT_DOUBLE_EQ(two_ranks(plan_of_stage(0), 8, 1, {.latency = true, .transfer = false}).step, 18.5);
}

}  // namespace
}  // namespace reprise::apps::scale
