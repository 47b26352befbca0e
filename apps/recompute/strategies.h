// The strategies that commands are given: those of models, and `auto` with its budget.
#pragma once

#include "reprise/apps/recompute/workload.h"

namespace reprise::apps::recompute {

/// `strategy` with the one of --recompute-predictor, where that is given: "full+selective".
std::string with_predictor(const std::string& strategy, const WorkloadOptions& options);

/// Error if `strategy` is none that `prepare` takes for this model.
void check_strategy(const std::string& strategy, const Workload& workload);

/// A strategy that parse_strategy reads, and behind a + the one of the model's predictor; without it the predictor has
/// the same.
Prepared prepared_for(const std::string& strategy, const Workload& workload);

/// What `prepared_for` takes, of which the first may be "auto:300MiB", the planner's plan for that budget; or "auto:50%", for the
/// budget halfway between the least memory and what no recompute needs. The planner measures the trainee,
/// whose optimizer must have its state; its predictor has `none` then, unless another one is named.
Prepared prepare(Trainee& trainee, const std::string& strategy, const Batch& batch);

}  // namespace reprise::apps::recompute
