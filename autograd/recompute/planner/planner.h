// Planner: which layers to play again, so that a training step is fastest among those whose peak memory is
// within a budget.
//
//   rp::recompute::Chain chain = ...;                                          // see profile.h
//   rp::recompute::Planned best = rp::recompute::plan_rotor(chain, 2LL << 30);  // 2 GiB
//   rp::Tensor y = rp::recompute::run_plan(best.plan, layers, x);
#pragma once

#include "reprise/autograd/recompute/planner/chain.h"
#include "reprise/autograd/recompute/planner/strategy.h"
#include "reprise/core/error.h"

namespace reprise::recompute {

/// A plan with its cost.
struct Planned {
  Plan plan;        ///< for `run_plan`
  PlanCost cost{};  ///< as simulate predicts it
};

/// The fastest plan whose predicted peak is at most `budget_bytes`, for a chain of unlike stages (Beaumont et
/// al. 2019; see Note [Persistent schedules] in rotor.cpp). Error stating the minimum if none is:
/// "recompute: a budget of 10 MiB is below the minimum 12.5 MiB of this chain".
Planned plan_rotor(const Chain& chain, int64_t budget_bytes);

/// The bytes that an automatic strategy allows: its own, or so much of what the chain may take.
int64_t budget_of(const Strategy& strategy, const Chain& chain);

/// The fastest among equal strategies whose predicted peak is at most `budget_bytes`: nothing, segments of
/// nearly equal length (Chen et al. 2016), every N-th layer, all but every N-th. Error stating their minimum if none is.
Planned plan_uniform(const Chain& chain, int64_t budget_bytes);

/// All plans worth having, by rising peak and falling time: each is plan_rotor's at the budget of its own
/// peak. The first is the chain's minimum, the last the fastest.
std::vector<Planned> frontier(const Chain& chain);

/// The least peak that any plan of the chain has.
int64_t minimum_bytes(const Chain& chain);

/// No plan has so small a peak.
class BudgetTooSmall : public Error {
 public:
  using Error::Error;
};

namespace detail {
/// Throws BudgetTooSmall. The minimum is rounded up as it is printed: a budget of
/// the printed number is enough.
[[noreturn]] void refuse_budget(int64_t budget_bytes, int64_t minimum_bytes, const std::string& of);
}  // namespace detail

}  // namespace reprise::recompute
