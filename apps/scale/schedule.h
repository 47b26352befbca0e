// The schedule of a step: a compute stream and a communication stream, both in order.
//
// Note [Two streams]
// Stages 0 to 2: a bucket starts once its gradients are ready and the bucket before has been sent. The optimizer waits for the last
// one; at stages 1 and 2 it updates its part and the weights are then gathered, bucket by bucket. Stage 1 sends whole sums of
// gradients, as Reprise's does, stage 2 a rank's part of them.
// Stage 3 is as in FSDP2, which shares what is around the blocks too: a layer's weights are gathered before its forward and
// again before its backward, while the layer before computes, so that two are there at once; its gradients are scattered after
// its backward.
// Not simulated: kernels of communication that slow those of computation down; gathers of losses and norms; reading of data.
#pragma once

#include "reprise/apps/scale/collectives.h"
#include "reprise/apps/scale/traffic.h"

namespace reprise::apps::scale {

struct StepTimes {
  double compute = 0;      ///< of all micro-batches and the optimizer's part
  double step = 0;         ///< from begin to the end of the update
  double last_bucket = 0;  ///< of the last gradients: what is sent even if all else is hidden
  double exposed() const { return step - compute; }
};

/// Times of collectives, which may leave out what would not limit on a better network.
struct Counted {
  bool latency = true, transfer = true;
};

/// `slowdown`: of compute, by the slowest rank.
StepTimes simulate_step(const StepProfile& profile, const TrainingPlan& plan, const Collectives& collectives,
                        int ranks, double slowdown = 1, Counted counted = {});

}  // namespace reprise::apps::scale
