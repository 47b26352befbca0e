// The strategies that commands are given: those of models, and `auto` with its budget.
#pragma once

#include "reprise/apps/recompute/workload.h"

namespace reprise::apps::recompute {

/// What a model is told to do.
struct Prepared {
  reprise::recompute::Plan plan;
  CheckpointOptions options;
};

/// Error if `strategy` is none that `prepare` takes for this model.
void check_strategy(const std::string& strategy, const Workload& workload);

/// What parse_strategy reads; or "auto:300MiB", the planner's plan for that budget; or "auto:50%", for the
/// budget halfway between the least memory and what no recompute needs. The planner measures the trainee,
/// whose optimizer must have its state.
Prepared prepare(Trainee& trainee, const std::string& strategy, const Batch& batch);

}  // namespace reprise::apps::recompute
